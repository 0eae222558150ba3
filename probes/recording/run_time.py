"""Where the wall time of this process goes: before its first step, in its steps, and after the last one.

Each of these three is divided by the ranges of the training thread. The clock begins with the process itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from .range_times import RangeTimes, times

_STARTED_AT = 19  # place of a process's start in /proc/self/stat behind its name, in ticks since the boot
Mark = tuple[int, dict[str, int]]


class RunTime:
    """The time of this process until its first step, and until the last one that has ended.

    The first step begins with the last pass over a loader, or with the training loop, before it ends. If neither is
    seen, its beginning is unknown.
    """

    def __init__(self, of: RangeTimes = times, now: Callable[[], int] = time.perf_counter_ns) -> None:
        self._times, self._now = of, now
        self._began: int | None = None
        self._first: Mark | None = None
        self._first_end: Mark | None = None
        self._last: Mark | None = None

    def watch(self) -> None:
        """Begin to time the ranges of this thread; the process may have run for a while."""
        self._began = self._now() - age_ns()
        self._times.watch(always=True)

    def forget(self) -> None:
        """Time no more, as in a forked child."""
        self._began = None
        self._times.watch(always=False)

    def may_begin(self) -> None:
        """Note that the first step may begin now."""
        if self._began is not None and self._last is None:
            self._first = self._mark()

    def step_ended(self) -> None:
        """Note that a step has ended, or a part of one."""
        if self._began is not None:
            self._last = self._mark()
            self._first_end = self._first_end or self._last

    def facts(self, ended: bool = False) -> dict[str, object] | None:
        """The time so far as the record has it; None before the first step."""
        if self._began is None or self._last is None or self._first_end is None:
            return None
        first, last, now = self._first or self._first_end, self._last, self._mark()
        return {
            "wall_ns": now[0] - self._began,
            "first_seen": self._first is not None,
            "ended": ended,
            "before": _between((self._began, {}), first),
            "in_steps": _between(first, last),
            "after": _between(last, now),
        }

    def _mark(self) -> Mark:
        return self._times.look(), dict(self._times.run)


def _between(begin: Mark, end: Mark) -> dict[str, object]:
    grown = {name: ns - begin[1].get(name, 0) for name, ns in end[1].items()}
    return {"ns": end[0] - begin[0], "ranges_ns": {name: ns for name, ns in grown.items() if ns > 0}}


def age_ns() -> int:
    """Nanoseconds since this process started; 0 if the system does not say."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[_STARTED_AT])
        return max(time.clock_gettime_ns(time.CLOCK_BOOTTIME) - ticks * 10**9 // os.sysconf("SC_CLK_TCK"), 0)
    except (OSError, ValueError, IndexError, AttributeError):
        return 0


run_time = RunTime()  # of this process, as the ranges are
