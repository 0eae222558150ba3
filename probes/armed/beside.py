"""A thread beside the training one, which writes, reads and waits for files so that no step does."""

from __future__ import annotations

from collections.abc import Callable

from ..guard import guarded
from ..side_thread import SideThread

EVERY_S = 1.0
_MOST_FAILURES = 3


class Beside:
    """Calls `turn` every second, and `close` at the end."""

    def __init__(self, turn: Callable[[], object], close: Callable[[], object]) -> None:
        self._turn, self._close = turn, close
        self._over = False
        self._failures = 0
        self._thread: SideThread | None = None

    def start(self) -> None:
        """Begin.

        Raises:
            RuntimeError: no thread can be had.
        """
        self._thread = SideThread(self._run)

    def stop(self, within_s: float) -> bool:
        """A last turn, and the end; whether it came within so many seconds. A hung file system holds up no job."""
        self._over = True
        return self._thread is None or self._thread.stop(within_s)

    def _run(self, thread: SideThread) -> None:
        try:
            last = False
            while not last and self._failures < _MOST_FAILURES:
                last = self._over  # before the turn: all that was noted until then is written in it
                self._failures = 0 if guarded(self._turn, "step times not written") else self._failures + 1
                if not last:
                    thread.wait(EVERY_S)
        finally:
            guarded(self._close, "step times not written")
