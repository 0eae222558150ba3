"""Tasks done by processes of this machine.

They are plain subprocesses that take one task after another: nothing of the caller is forked or imported again, so a
script needs no guard around its main code. What comes back over the pipe was written by this program itself.
"""

import contextlib
import json
import os
import pickle
import queue
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from diagnose.analysis.workers.task import Result, Task, done
from diagnose.errors import UserError

_SERVE = "from diagnose.analysis.workers.processes import serve; serve()"
_START = f"import json, sys; sys.path[:] = json.loads(sys.argv[1]); {_SERVE}"


class Worker:
    """A process that does tasks; one that dies is replaced, and its task done here."""

    def __init__(self) -> None:
        self._process = self._start()
        self._wanted = True

    def do(self, task: Task) -> Result:
        """The result of the task."""
        try:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            pickle.dump(task, self._process.stdin)
            self._process.stdin.flush()
            result: Result = pickle.load(self._process.stdout)
            return result
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            if not self._wanted:
                return UserError("stopped", where=task.path)
            self._end()
            self._process = self._start()
            return done(task)

    def stop(self) -> None:
        """Ends the process for good."""
        self._wanted = False
        self._end()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", _START, json.dumps(sys.path)]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )


def by_processes(tasks: Sequence[Task], jobs: int) -> Iterator[Result]:
    """The results in the order of the tasks, `jobs` of which are done at a time."""
    idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    workers = [Worker() for _ in range(jobs)]
    for worker in workers:
        idle.put(worker)

    def one(task: Task) -> Result:
        worker = idle.get()
        try:
            return worker.do(task)
        finally:
            idle.put(worker)

    pool = ThreadPoolExecutor(jobs)
    try:
        yield from pool.map(one, tasks)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.stop()
        pool.shutdown()


def serve() -> None:
    """What a worker does: takes tasks from its input and answers them on its output, until the input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get between the answers
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            result = done(pickle.load(sys.stdin.buffer))
            pickle.dump(result, answers)
            answers.flush()
