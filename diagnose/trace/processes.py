"""Plain subprocesses that take tasks over a pipe and answer over another.

Nothing of the caller is forked or imported again, so a script needs no guard around its main code. Tasks and answers
are pickled between processes of this program alone. Ctrl-C reaches the caller, who ends the processes.
"""

import contextlib
import json
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, Self, TypeVar

Task = TypeVar("Task")
Answer = TypeVar("Answer")
_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from diagnose.trace.processes import serve; serve()"
_BROKEN = (OSError, EOFError, ValueError, AttributeError, ImportError, IndexError, pickle.UnpicklingError)


class Processes(Generic[Task, Answer]):
    """So many processes that apply a function to tasks, for the length of a `with`.

    Args:
        function: of a module, by whose name the processes find it.
        jobs: how many processes; each does one task after another.
    """

    def __init__(self, function: Callable[[Task], Answer], jobs: int) -> None:
        self._idle: queue.SimpleQueue[Worker[Task, Answer]] = queue.SimpleQueue()
        self._workers = [Worker(function) for _ in range(jobs)]
        for worker in self._workers:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(jobs)

    def submit(self, task: Task) -> "Future[Answer | None]":
        """The answer to the task when there is one; None where the process died, which the caller makes up for."""
        return self._threads.submit(self._answer, task)

    def _answer(self, task: Task) -> Answer | None:
        worker = self._idle.get()
        try:
            return worker.answer(task)
        finally:
            self._idle.put(worker)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            worker.stop()
        self._threads.shutdown()


class Worker(Generic[Task, Answer]):
    """A process that does tasks; one that dies is replaced."""

    def __init__(self, function: Callable[[Task], Answer]) -> None:
        self._function = function
        self._wanted = True
        self.process = self._started()

    def answer(self, task: Task) -> Answer | None:
        """What the function makes of the task, None where the process died over it."""
        try:
            assert self.process.stdin is not None
            assert self.process.stdout is not None
            pickle.dump((self._function, task), self.process.stdin)
            self.process.stdin.flush()
            answer: Answer = pickle.load(self.process.stdout)
            return answer
        except _BROKEN:
            if self._wanted:
                self._end()
                self.process = self._started()
            return None

    def stop(self) -> None:
        """Ends the process for good."""
        self._wanted = False
        self._end()

    def _end(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-c", _START, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"OPENBLAS_NUM_THREADS": "1", **os.environ},  # as in a command: numpy is asked for no products
            start_new_session=True,
        )


def serve() -> None:
    """What a process does: takes tasks from its input and answers them on its output, until the input ends.

    A thread reads, so that it is gone as soon as who asked is, in the middle of a task too.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get between the answers
    tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_take, args=(tasks,), daemon=True).start()
    with contextlib.suppress(BrokenPipeError):
        while True:
            function, task = tasks.get()
            pickle.dump(function(task), answers)
            answers.flush()


def _take(tasks: "queue.SimpleQueue[Any]") -> None:
    """The tasks as they come; the process ends where no more can be read."""
    try:
        while True:
            tasks.put(pickle.load(sys.stdin.buffer))
    finally:
        os._exit(1)
