"""A background thread that writes, reads and waits for files, so that no step does."""

from __future__ import annotations

from collections.abc import Callable

from ..guard import guarded, quietly, say
from ..side_thread import SideThread

EVERY_S = 1.0
_MOST_TOLD = 3  # failures in a row: a disk may be full for hours


class Background:
    """Calls `turn` every second, even if it fails, and `close` at the end."""

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
        """Take a last turn and end the thread; whether it ended within so many seconds.

        A hung file system delays no job.
        """
        self._over = True
        return self._thread is None or self._thread.stop(within_s)

    def _run(self, thread: SideThread) -> None:
        try:
            last = False
            while not last:
                last = self._over  # read before the turn, which writes all notes until then
                self._take_turn()
                if not last:
                    thread.wait(EVERY_S)
        finally:
            guarded(self._close, "step times not written")

    def _take_turn(self) -> None:
        """Take a turn, silently if many before it have failed alike."""
        told = self._failures < _MOST_TOLD
        if guarded(self._turn, "step times not written") if told else quietly(lambda: (self._turn(),)) is not None:
            if not told:
                say("step times are written again")
            self._failures = 0
        else:
            self._failures += 1
