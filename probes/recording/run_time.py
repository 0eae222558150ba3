"""Where the wall time of this process goes: before its first step, in its steps, and after the last one.

Each of these three is divided by the ranges of the training thread. The clock begins with the process itself.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

from ..hand_over import around_imports
from ..protocol import DATA_WAIT_RANGE, FIRST_BATCH_RANGE, IMPORT_RANGE, PART_OF_RANGE
from .range_times import RangeTimes, times

_STARTED_AT = 19  # place of a process's start in /proc/self/stat behind its name, in ticks since the boot
Mark = tuple[int, dict[str, int]]
READ_AHEAD = 8  # batches that a loop may take before its first backward pass
MOSTLY_WAITS = 0.8  # of a pass that only reads: what takes longer beside it is work, such as a rollout


class RunTime:
    """The time of this process until its first step, and until the last one that has ended.

    The first step begins with the last pass over a loader, or with the training loop, before it ends. If neither is
    seen, its beginning is unknown. A loop that takes many batches before its first backward pass and does nothing with
    them skips them: the first step then begins with the last of these fetches.

    Attributes:
        maps: what `datasets.map` did before the first step.
    """

    def __init__(self, of: RangeTimes = times, now: Callable[[], int] = time.perf_counter_ns) -> None:
        self._times, self._now = of, now
        self._began: int | None = None
        self._first: Mark | None = None
        self._first_end: Mark | None = None
        self._last: Mark | None = None
        self._fetch: Mark | None = None
        self._fetches = 0
        self._skipped: list[tuple[Mark, Mark, int]] = []
        self.maps: dict[str, int | None] | None = None

    @property
    def is_before(self) -> bool:
        """Whether this thread is timed and has not ended a step yet."""
        return self._began is not None and self._last is None and self._times.is_here()

    def watch(self) -> None:
        """Begin to time the ranges of this thread; the process may have run for a while."""
        self._began = self._now() - age_ns()
        self._times.watch(always=True)
        _watch_imports(self._times)

    def forget(self) -> None:
        """Time no more, as in a forked child."""
        self._began = None
        self._times.watch(always=False)
        _leave_imports()

    def may_begin(self) -> None:
        """Note that the first step may begin now."""
        if self._began is not None and self._last is None:
            self._end_pass()
            self._first = self._mark()

    def fetches(self) -> None:
        """Note that a batch is asked for, and no backward pass has been made."""
        if self.is_before and self._first is not None:
            self._fetch, self._fetches = self._mark(), self._fetches + 1

    def step_ended(self) -> None:
        """Note that a step has ended, or a part of one."""
        if self._began is not None:
            if self._last is None:
                self._end_pass()
                _leave_imports()
            self._last = self._mark()
            self._first_end = self._first_end or self._last

    def _end_pass(self) -> None:
        """Leave out of the first step what the pass so far has read and skipped."""
        begin, end, batches = self._first, self._fetch, self._fetches - 1
        self._fetch, self._fetches = None, 0
        if begin is not None and end is not None and batches >= READ_AHEAD and _mostly_waits(begin, end):
            self._skipped.append((begin, end, batches))
            self._first = end

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
            "skipped": self._skipped_facts(),
            "maps": self.maps,
        }

    def goodput(self, usual_ns: float = 0.0) -> tuple[int, int] | None:
        """Nanoseconds of steps without what they wait for, and of the process so far; None before the first step.

        A first step whose beginning was not seen is taken to be as long as a usual one, as in the report.
        """
        if self._began is None or self._last is None or self._first_end is None:
            return None
        (begun, before), (ended, ranges) = self._first or self._first_end, self._last
        parts = sum(ranges.get(name, 0) - before.get(name, 0) for name in PART_OF_RANGE)
        unseen = 0 if self._first is not None else min(int(usual_ns), begun - self._began)
        return max(ended - begun - parts, 0) + unseen, self._times.look() - self._began

    def _skipped_facts(self) -> dict[str, object] | None:
        if not self._skipped:
            return None
        ranges: dict[str, int] = {}
        for begin, end, _ in self._skipped:
            for name, ns in _grown(begin, end).items():
                ranges[name] = ranges.get(name, 0) + ns
        batches = sum(read for *_, read in self._skipped)
        return {
            "batches": batches,
            "ns": sum(end[0] - begin[0] for begin, end, _ in self._skipped),
            "ranges_ns": ranges,
        }

    def _mark(self) -> Mark:
        return self._times.look(), dict(self._times.run)


def _between(begin: Mark, end: Mark) -> dict[str, object]:
    return {"ns": end[0] - begin[0], "ranges_ns": _grown(begin, end)}


def _grown(begin: Mark, end: Mark) -> dict[str, int]:
    grown = {name: ns - begin[1].get(name, 0) for name, ns in end[1].items()}
    return {name: ns for name, ns in grown.items() if ns > 0}


def _mostly_waits(begin: Mark, end: Mark) -> bool:
    grown = _grown(begin, end)
    return sum(grown.get(name, 0) for name in (DATA_WAIT_RANGE, FIRST_BATCH_RANGE)) >= MOSTLY_WAITS * (
        end[0] - begin[0]
    )


def _imports() -> Any:
    """The watch over the imports of this process, which the start-up file's finder has; None if that did not run."""
    finders = (finder for finder in sys.meta_path if type(finder).__name__ == "_AfterImport")
    return getattr(next(finders, None), "imports", None)


def _watch_imports(timed: RangeTimes) -> None:
    """Make imports a range of the training thread, with those that it has already made."""
    imports = _imports()
    if imports is None:
        return
    timed.run[IMPORT_RANGE], under_way = imports.so_far()
    if under_way:
        timed.opened(IMPORT_RANGE)

    def begins() -> None:
        if timed.on:
            timed.opened(IMPORT_RANGE)

    around_imports(imports, begins, lambda: timed.closed(IMPORT_RANGE), "imports are not timed")


def _leave_imports() -> None:
    imports = _imports()
    if imports is not None:
        imports.on, imports.began = False, None


def age_ns() -> int:
    """Nanoseconds since this process started; 0 if the system does not say."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[_STARTED_AT])
        return max(time.clock_gettime_ns(time.CLOCK_BOOTTIME) - ticks * 10**9 // os.sysconf("SC_CLK_TCK"), 0)
    except (OSError, ValueError, IndexError, AttributeError):
        return 0


run_time = RunTime()  # of this process, as the ranges are
