"""Plain subprocesses that take tasks over a pipe and answer over another.

Nothing of the caller is forked or imported again, so a script needs no guard around its main code. Tasks and answers
are pickled between processes of this program alone. Ctrl-C reaches the caller, which ends the processes. They only save
time: what the system gives none for, or what one dies over, the caller does itself.
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
from concurrent.futures import Future
from typing import Any, Generic, Self, TypeVar

Task = TypeVar("Task")
Answer = TypeVar("Answer")
_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from diagnose.trace.processes import serve; serve()"
_MOST_IN_TURN = 3  # processes that die over a task each: the next would, too
_BROKEN = (OSError, EOFError, ValueError, AttributeError, ImportError, IndexError, pickle.UnpicklingError)


class ProcessPool(Generic[Task, Answer]):
    """A number of processes that apply a function to tasks, within a `with`.

    There are fewer processes, or none, if the system gives no more processes, threads or descriptors.

    Args:
        function: of a module, by whose name the processes find it.
        jobs: how many processes; each does one task after another.
    """

    def __init__(self, function: Callable[[Task], Answer], jobs: int) -> None:
        self._tasks: queue.SimpleQueue[tuple[Future[Answer | None], Task] | None] = queue.SimpleQueue()
        self._workers: list[Worker[Task, Answer]] = []
        self._threads: list[threading.Thread] = []
        for _ in range(jobs):
            worker = Worker(function)
            thread = threading.Thread(target=self._work, args=(worker,), daemon=True)
            if not (worker.runs and _begun(thread)):
                worker.stop()
                break
            self._workers.append(worker)
            self._threads.append(thread)

    def submit(self, task: Task) -> "Future[Answer | None]":
        """A future of the answer to the task; None if no process gave one, which the caller then computes."""
        future: Future[Answer | None] = Future()
        if self._threads:
            self._tasks.put((future, task))
        else:
            future.set_result(None)
        return future

    def _work(self, worker: "Worker[Task, Answer]") -> None:
        while self._has_done_one(worker):
            pass

    def _has_done_one(self, worker: "Worker[Task, Answer]") -> bool:
        """Whether there was a task; nothing of it is held while the next one is waited for."""
        given = self._tasks.get()
        if given is None:
            return False
        future, task = given
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(worker.answer(task))
            except BaseException as error:
                future.set_exception(error)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(queue.Empty):
            while given := self._tasks.get_nowait():
                given[0].cancel()
        for worker in self._workers:
            self._tasks.put(None)
            worker.stop()
        for thread in self._threads:
            thread.join()


def _begun(thread: threading.Thread) -> bool:
    try:
        thread.start()
    except RuntimeError:  # no more threads for this user
        return False
    return True


class Worker(Generic[Task, Answer]):
    """A process that does tasks; one that dies is replaced, unless the system gives none, or several died in turn."""

    def __init__(self, function: Callable[[Task], Answer]) -> None:
        self._function = function
        self._wanted = True
        self._died_in_turn = 0
        self.process = self._started()

    @property
    def runs(self) -> bool:
        """Whether there is a process."""
        return self.process is not None

    def answer(self, task: Task) -> Answer | None:
        """The function's result for the task, None if the process died over it, or there is none."""
        process = self.process
        if process is None:
            return None
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            pickle.dump((self._function, task), process.stdin)
            process.stdin.flush()
            answer: Answer = pickle.load(process.stdout)
            self._died_in_turn = 0
            return answer
        except _BROKEN:
            self._died_in_turn += 1
            if self._wanted:
                _end(process)
                self.process = self._started() if self._died_in_turn < _MOST_IN_TURN else None
            return None

    def stop(self) -> None:
        """Ends the process for good."""
        self._wanted = False
        if self.process is not None:
            _end(self.process)

    def _started(self) -> "subprocess.Popen[bytes] | None":
        """A process; None if the system gives none, or no pipe to it."""
        try:
            return subprocess.Popen(
                [sys.executable, "-c", _START, json.dumps(sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={"OPENBLAS_NUM_THREADS": "1", **os.environ},  # as in a command: numpy is asked for no products
                start_new_session=True,
            )
        except (OSError, subprocess.SubprocessError, MemoryError):
            return None


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


def serve() -> None:
    """The main loop of a process: take tasks from its input and answer them on its output, until the input ends.

    A thread reads, so that the process ends as soon as its parent does, even in the middle of a task.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a library's output must not get between the answers
    tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_take, args=(tasks,), daemon=True).start()
    with contextlib.suppress(BrokenPipeError):
        while True:
            function, task = tasks.get()
            pickle.dump(function(task), answers)
            answers.flush()


def _take(tasks: "queue.SimpleQueue[Any]") -> None:
    """Queue the tasks as they arrive; end the process if no more can be read."""
    try:
        while True:
            tasks.put(pickle.load(sys.stdin.buffer))
    finally:
        os._exit(1)
