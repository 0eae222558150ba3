"""Judge which steps are slow compared with those before them, and what a window for them would have to hold."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque

from .recurrence import Recurrence
from .triggers import Wanted

USUAL_STEPS = 255
LEAST_STEPS = 20
LAST_STEPS, SLOW_OF_THEM = 5, 3  # so many slow ones of the last are a slow stretch, fewer are single steps
COMMON = 0.9  # a time that a tenth of the steps takes is normal for the job
BEYOND_COMMON = 1.25


class UsualStepTimes:
    """The last step times in the order of their size."""

    def __init__(self) -> None:
        self._came: deque[int] = deque()
        self._ordered: list[int] = []

    def __len__(self) -> int:
        return len(self._ordered)

    def add(self, ns: int) -> None:
        """Add a step and drop the oldest."""
        if len(self._came) == USUAL_STEPS:
            del self._ordered[bisect_left(self._ordered, self._came.popleft())]
        self._came.append(ns)
        insort(self._ordered, ns)

    @property
    def median(self) -> int:
        """The running median in nanoseconds; 0 without a step."""
        return self._ordered[len(self._ordered) // 2] if self._ordered else 0

    def slow_from(self, factor: float) -> float:
        """Nanoseconds above which a step is slow: `factor` times the median, and beyond the usual spread."""
        return max(factor * self.median, BEYOND_COMMON * self._ordered[int(COMMON * (len(self._ordered) - 1))])


class Slowness:
    """Judges each step against up to 255 before it.

    A stretch of slow steps asks for a window at once. A single slow step is over when it is seen: it asks for a window
    at its next recurrence, once three or more have come at equal distances.
    """

    def __init__(self, factor: float) -> None:
        self.usual = UsualStepTimes()
        self._factor = factor
        self._last: deque[bool] = deque(maxlen=LAST_STEPS)
        self._recurrence = Recurrence()
        self._stretch_began: int | None = None
        self._judged = 0

    def slow_from(self) -> float:
        """Nanoseconds above which the next step is slow; infinite while too few are known."""
        return self.usual.slow_from(self._factor) if len(self.usual) >= LEAST_STEPS else float("inf")

    def step_ended(self, step: int, ns: int) -> Wanted | None:
        """Note a step without the profiler; return the window that it asks for, if any."""
        usual, limit = self.usual, self.slow_from()
        usual.add(ns)
        slow = ns > limit
        self._judged += 1
        self._last.append(slow)
        if not slow:
            self._stretch_began = self._stretch_began if any(self._last) else None
            return None
        if self._stretch_began is None:
            self._stretch_began = step
        if sum(self._last) >= SLOW_OF_THEM:
            times = ns / max(usual.median, 1)
            return Wanted(f"since step {self._stretch_began} steps take {times:.2g}x the usual time", slow=True)
        self._recurrence.note(step, ns / max(usual.median, 1) - 1)
        comes = self._recurrence.comes_again(self._judged)
        if comes is None:
            return None
        expected, period = comes
        return Wanted(f"a slow step comes every {period} steps", expected, period, slow=True)

    @property
    def period(self) -> int:
        """The distance at which slow steps come again, as last believed; 0 without one."""
        return self._recurrence.believed

    def answered(self, wanted: Wanted) -> None:
        """Note that a window opens for the request."""
        if wanted.step is not None and wanted.period:
            self._recurrence.tried(wanted.step, wanted.period)

    def recorded(self, steps: dict[int, int]) -> int | None:
        """The slow one of a window's steps, if there is one; `steps` are nanoseconds with the profiler on, by number.

        A recurring step that was recorded needs no further window.
        """
        times = sorted(steps.values())
        if len(times) < 3:
            return None
        step = max(steps, key=lambda number: steps[number])
        excess = steps[step] / max(times[(len(times) - 1) // 2], 1) - 1
        if excess <= self._factor - 1:
            return None
        self._recurrence.note(step, excess)
        self._recurrence.settle(step)
        return step
