"""Time of the training thread by range, in steps without the profiler, on the clock of the host.

A range costs two looks at the clock. So these steps are as long as without it, and their times by range need no
correction, unlike those of a profiler.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ..protocol import EVAL_RANGE, OWN_RANGE, SAVE_RANGE

WHOLE = (EVAL_RANGE, SAVE_RANGE)  # what lies within one of these is a part of it
MOST_NAMES, LONGEST_NAME = 32, 100  # of the job's own names for ranges


class RangeTimes:
    """Nanoseconds in each range since the last `restart`, without the ranges within it.

    So the times of the ranges, and the time outside all of them, add up to the step. An evaluation or a save has all
    that lies within it, such as its own waits for data. Ranges of other threads are not counted.

    Attributes:
        on: whether ranges are timed.
        run: nanoseconds in each range since `watch`, by the same rules, and in the probe's own work.
    """

    def __init__(self, now: Callable[[], int] = time.perf_counter_ns) -> None:
        self.on = False
        self.run: dict[str, int] = {}
        self._now = now
        self._thread = 0
        self._ns: dict[str, int] = {}
        self._open: list[str] = []
        self._whole = ""
        self._since = 0
        self._always = False

    def watch(self, always: bool) -> None:
        """Time ranges of this thread between steps, too, from now on, or no longer."""
        self._always = always
        self.restart(on=always)

    def restart(self, *, on: bool) -> None:
        """Begin a step in this thread: open ranges stay open and count from now on."""
        self.on, self._ns, self._since = on or self._always, {}, self._now()
        self._thread = threading.get_ident()
        if not self.on:
            self._open.clear()
            self._whole = ""

    def look(self) -> int:
        """Count the time so far, and return the time of the clock."""
        if self.on and self._thread == threading.get_ident():
            self._book()
        return self._now()

    def own(self, began: int) -> None:
        """Count the time since a look at `began` as the probe's own work, in no range of the step."""
        if self._always and self._thread == threading.get_ident():
            self._since = self._now()
            self.run[OWN_RANGE] = self.run.get(OWN_RANGE, 0) + self._since - began

    def is_here(self) -> bool:
        """Whether this is the thread whose ranges are timed."""
        return self.on and self._thread == threading.get_ident()

    def is_open(self, name: str) -> bool:
        """Whether a range of this name is open."""
        return name in self._open

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
        if not self._whole and name in WHOLE:
            self._whole = name
        return True

    def closed(self, name: str) -> None:
        """End the range, and the ranges that are open in it."""
        if name in self._open and self._thread == threading.get_ident():
            self._book()
            while self._open.pop() != name:
                pass
            if self._whole and self._whole not in self._open:
                self._whole = ""

    def _book(self) -> None:
        """Count the time since the last look for the innermost range, or the one that has all within it."""
        now, since = self._now(), self._since
        self._since = now
        name = self._whole or (self._open[-1][:LONGEST_NAME] if self._open else "")
        for times in (self._ns, self.run) if name else ():
            if name in times or len(times) < MOST_NAMES:
                times[name] = times.get(name, 0) + now - since


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
