"""When the samples of a stack are enough: many, and of several slow steps where a few steps take much of the time."""

from __future__ import annotations

from bisect import bisect_right, insort
from math import log

ENOUGH = 200
SLOW, SLOW_SHARE = 2.0, 0.2  # times the median step; the share of the time from which slow steps matter
MOST_OFTEN = 0.25  # of the steps: what comes as often is no phase
BY_CHANCE = 1e-5  # at most: the slow steps that come at one distance
LONGEST_NS = 60_000_000_000  # for the slow steps of a run that has them seldom
_REMEMBERED = 20_000


class SampledSteps:
    """The times of the sampled steps."""

    def __init__(self) -> None:
        self._ordered: list[int] = []
        self._wall_ns = 0

    def add(self, ns: int) -> None:
        """Add a step."""
        self._wall_ns += ns
        if len(self._ordered) < _REMEMBERED:
            insort(self._ordered, ns)

    def enough(self, samples: int) -> bool:
        """Whether so many samples of these steps show what takes the time of the run."""
        if samples < ENOUGH:
            return False
        return self._wall_ns > LONGEST_NS or not self._has_slow_steps_of_unknown_period()

    def _has_slow_steps_of_unknown_period(self) -> bool:
        """Whether slow steps matter, and are too few to exclude that they come at one distance by chance."""
        ordered = self._ordered
        slow = ordered[bisect_right(ordered, SLOW * ordered[len(ordered) // 2]) :]
        often = len(slow) / len(ordered)
        if sum(slow) < SLOW_SHARE * self._wall_ns or often > MOST_OFTEN:
            return False
        return len(slow) < 2 + log(BY_CHANCE) / log(3 * often)
