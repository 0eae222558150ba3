"""A thread that runs next to the training thread until that one ends it."""

from __future__ import annotations

import _thread
import os
from collections.abc import Callable

from .guard import quietly
from .hand_over import in_a_thread


class SideThread:
    """Runs `run` at once in a thread of its own, and passes itself to it, to `wait` with.

    All else is for the thread that began it.

    The thread is one of the interpreter's bare ones: it is in no list of the job's threads, runs none of the job's
    trace functions, and nothing waits for it at exit but `stop`. `run` must not raise: nobody would see the exception.

    Raises:
        RuntimeError: no thread can be had.
    """

    def __init__(self, run: Callable[[SideThread], object]) -> None:
        self._owner = os.getpid()
        self._woken, self._ended = _thread.allocate_lock(), _thread.allocate_lock()
        self._woken.acquire()
        self._ended.acquire()
        in_a_thread(lambda: self._run(run), "a thread beside the training failed")

    def wait(self, seconds: float) -> bool:
        """Wait inside `run` for at most so many seconds; whether it was woken before."""
        return self._woken.acquire(timeout=seconds)

    def wake(self) -> None:
        """End the wait, or the next one; in a forked child, which lacks the thread, do nothing."""
        if self._owner == os.getpid():
            quietly(self._woken.release)  # which raises if a wake is not heard yet

    def stop(self, within_s: float) -> bool:
        """Wake the thread and wait for its end; whether it ended within so many seconds.

        A forked child does not wait.
        """
        self.wake()
        return self._owner != os.getpid() or self._ended.acquire(timeout=within_s)

    def _run(self, run: Callable[[SideThread], object]) -> None:
        try:
            run(self)
        finally:
            self._ended.release()
