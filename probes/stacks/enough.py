"""When the samples of a stack are enough: many, and of several slow steps where a few steps take most of the time."""

from __future__ import annotations

from bisect import insort

ENOUGH = 200
SLOW_STEPS = 5  # as many make a period known, however far they are apart
SLOW, SLOW_SHARE = 2.0, 0.2  # times the median step; the share of the time from which slow steps matter
LONGEST_NS = 60_000_000_000  # for the slow steps of a run that has them seldom
_REMEMBERED = 4096


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
        slow = self._slow()
        waits_for_more = 0 < len(slow) < SLOW_STEPS and sum(slow) > SLOW_SHARE * self._wall_ns
        return not waits_for_more or self._wall_ns > LONGEST_NS

    def _slow(self) -> list[int]:
        ordered = self._ordered
        limit = SLOW * ordered[len(ordered) // 2] if len(ordered) > 2 else float("inf")
        return [ns for ns in reversed(ordered[-SLOW_STEPS:]) if ns > limit]
