"""Run work in a second thread while the training thread waits: there, no signal handler of the job interrupts it.

Python runs signal handlers in the main thread alone. While that one waits here, what a handler raises comes out of the
waiting at once and reaches the job; the work goes on to its end, as it does if the wait has a time limit.
"""

from __future__ import annotations

import _thread
from collections.abc import Callable
from typing import Any

from .guard import guarded
from .hand_over import in_a_thread


class ThreadedCall:
    """A call in a thread of its own, begun at once.

    The thread is one of the interpreter's bare ones: it is in no list of the job's threads, runs none of the job's
    trace functions, and nothing waits for it at exit but `result`.
    """

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._value: Any = None
        self._error: BaseException | None = None
        self._over = False  # by itself: an exception may come while the waiting thread has just taken the lock
        self._ended = _thread.allocate_lock()
        self._ended.acquire()
        try:
            in_a_thread(self._run, "a thread beside the training failed")
        except RuntimeError:  # no thread can be had
            self._run()

    @property
    def ended(self) -> bool:
        """Whether there is nothing to wait for."""
        return self._over

    def ends_within(self, seconds: float) -> bool:
        """Wait for the end for at most so many seconds; whether it has come.

        Raises:
            BaseException: what a signal handler of the job raises meanwhile.
        """
        if not self._over and self._ended.acquire(timeout=seconds):
            self._ended.release()
        return self._over

    def result(self) -> Any:
        """Wait for the end and return the result of the call.

        Raises:
            BaseException: what the call raised, or what a signal handler of the job raises meanwhile.
        """
        if not self._over:
            with self._ended:
                pass
        if self._error is not None:
            raise self._error
        return self._value

    def _run(self) -> None:
        try:
            self._value = self._call()
        except BaseException as error:
            self._error = error
        finally:
            self._over = True
            self._ended.release()


def run_in_thread(call: Callable[[], object]) -> Any:
    """Run `call` in another thread, wait for it, and return its result.

    Raises:
        BaseException: as `ThreadedCall.result`.
    """
    return ThreadedCall(call).result()


class InTurn:
    """Calls in other threads that keep their order, even if an exception ended the wait for one of them."""

    def __init__(self) -> None:
        self._running: ThreadedCall | None = None

    @property
    def busy(self) -> bool:
        """Whether a call that was not waited for to its end still runs."""
        return self._running is not None and not self._running.ended

    def run(
        self, call: Callable[[], object], earlier_failed: Callable[[str], object], patience_s: float | None = None
    ) -> None:
        """Run `call` after an earlier call that still runs; `earlier_failed` receives the error of that one.

        With `patience_s`, wait no longer than that for the end of `call`.

        Raises:
            BaseException: as `ThreadedCall.result`.
        """
        earlier, self._running = self._running, None
        if earlier is not None:
            guarded(earlier.result, "not written", earlier_failed)
        running = self._running = ThreadedCall(call)
        try:
            if patience_s is None or running.ends_within(patience_s):
                running.result()
        finally:
            if running.ended:
                self._running = None
