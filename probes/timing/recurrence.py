"""Slow steps that come at equal distances, and when the next one is due."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

REMEMBERED = 64
_CANDIDATES = 8  # distances to so many slow steps before the last are tried
_NEIGHBOURS = 3  # slow steps so near are one
_LEAST_PERIOD = 8
_TOLERATED = 50  # a period may be off by the fiftieth part, and by a step
_ALIKE = 0.5  # share of the last slow step's excess from which an earlier one counts as alike
_BY_CHANCE = 0.1
_MOST_TRIES = 3


@dataclass(frozen=True)
class Slow:
    """A slow step, `excess` times the usual time longer than that."""

    step: int
    excess: float


class Recurrence:
    """The last slow steps of a run, without those of stretches.

    The two steps that set a period prove nothing; the earlier ones that fit it have to be too many for chance, at the
    rate of slow steps. A period is answered with at most three windows, and with none once a window has recorded such a
    step.
    """

    def __init__(self) -> None:
        self._slow: deque[Slow] = deque(maxlen=REMEMBERED)
        self._settled: deque[tuple[int, int]] = deque(maxlen=REMEMBERED)
        self._tries: deque[tuple[int, int]] = deque(maxlen=REMEMBERED)
        self._believed = 0

    @property
    def believed(self) -> int:
        """The last period that was believed, 0 for none."""
        return self._believed

    def note(self, step: int, excess: float) -> None:
        """Note a slow step, unless it is close to the previous one."""
        if not self._slow or step - self._slow[-1].step > _NEIGHBOURS:
            self._slow.append(Slow(step, excess))

    def comes_again(self, judged: int) -> tuple[int, int] | None:
        """The step at which the next one is due, and the period; None if none is believed, or it is settled.

        `judged` is the number of steps judged so far.
        """
        last = self._slow[-1]
        steps = [one.step for one in self._slow if one.excess >= _ALIKE * last.excess]
        observed = min(judged, last.step - steps[0] + judged // len(steps))
        rate = len(steps) / max(observed, 1)
        tried = [last.step - step for step in steps[-2 : -2 - _CANDIDATES : -1]]
        tried = [period for period in tried if period >= _LEAST_PERIOD and last.step - 2 * period >= steps[0] - 2]
        for period in tried:
            hits = _hits(steps, last.step, period)
            chance = min((2 * _tolerance(period) + 1) * rate, 1.0)
            times = len(tried) * (len(steps) - 2)  # each slow step so far was a try, too
            if len(hits) > 2 and times * chance ** (len(hits) - 2) < _BY_CHANCE:
                return self._unless_settled(last.step, max(round((last.step - hits[-1]) / (len(hits) - 1)), 1))
        return None

    def tried(self, step: int, period: int) -> None:
        """Note that a window opens at `step`, which is due; after three of them in vain no more open."""
        self._tries.append((step, period))
        if sum(_in_phase(step, one, every) for one, every in self._tries) >= _MOST_TRIES:
            self._settled.append((step, period))

    def settle(self, step: int) -> None:
        """Note that `step` was recorded: its period, if one is believed, needs no further window."""
        if self._believed:
            self._settled.append((step, self._believed))

    def _unless_settled(self, last: int, period: int) -> tuple[int, int] | None:
        if any(_in_phase(last, step, every) for step, every in self._settled):
            return None
        self._believed = period
        return last + period, period


def _hits(steps: list[int], last: int, period: int) -> list[int]:
    """Slow steps a period apart, from the last one back to the first miss."""
    hits = [last]
    while True:
        due = hits[-1] - period
        nearest = min(steps, key=lambda step: abs(step - due))
        if abs(nearest - due) > _tolerance(period) or nearest >= hits[-1]:
            return hits
        hits.append(nearest)


def _tolerance(period: int) -> int:
    return max(period // _TOLERATED, 1)


def _in_phase(step: int, settled: int, period: int) -> bool:
    off = (step - settled + period // 2) % period - period // 2
    times = max(abs(step - settled) // period, 1)
    return abs(off) <= min(_tolerance(period) * times, period // 4)
