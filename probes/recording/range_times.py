"""Time of the training thread by range, in steps without the profiler, on the clock of the host.

A range costs two looks at the clock. So these steps are as long as without it, and their times by range need no
correction, unlike those of a profiler.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

MOST_NAMES, LONGEST_NAME = 32, 100  # of the job's own names for ranges


class RangeTimes:
    """Nanoseconds in each range since the last `restart`, without the ranges within it.

    So the times of the ranges, and the time outside all of them, add up to the step. Ranges of other threads are not
    counted.

    Attributes:
        on: whether ranges are timed.
    """

    def __init__(self, now: Callable[[], int] = time.perf_counter_ns) -> None:
        self.on = False
        self._now = now
        self._thread = 0
        self._ns: dict[str, int] = {}
        self._open: list[str] = []
        self._since = 0

    def restart(self, *, on: bool) -> None:
        """Begin a step in this thread: open ranges stay open and count from now on."""
        self.on, self._ns, self._since = on, {}, self._now()
        self._thread = threading.get_ident()
        if not on:
            self._open.clear()

    def taken(self) -> dict[str, int]:
        """End the step and return its nanoseconds by range."""
        self._book()
        return self._ns

    def opened(self, name: str) -> bool:
        """Open a range, and return whether its end is to be reported."""
        if self._thread != threading.get_ident():
            return False
        self._book()
        self._open.append(name)
        return True

    def closed(self, name: str) -> None:
        """End the range, and the ranges that are open in it."""
        if name in self._open and self._thread == threading.get_ident():
            self._book()
            while self._open.pop() != name:
                pass

    def _book(self) -> None:
        """Count the time since the last look for the innermost range."""
        now, since = self._now(), self._since
        self._since = now
        name = self._open[-1][:LONGEST_NAME] if self._open else ""
        if name in self._ns or (name and len(self._ns) < MOST_NAMES):
            self._ns[name] = self._ns.get(name, 0) + now - since


class Timed:
    """A block that is only timed."""

    __slots__ = ("_name", "_opened")

    def __init__(self, name: str) -> None:
        self._name = name
        self._opened = False

    def __enter__(self) -> None:
        self._opened = times.on and times.opened(self._name)

    def __exit__(self, *error: object) -> None:
        if self._opened:
            times.closed(self._name)


times = RangeTimes()  # of this process: ranges are in the job's own code, which knows no session
