"""The joint gain of the changes of a plan: their best cases hardly come true together, and nor do their worst.

Each gain lies anywhere in its range, whatever the others do: in logarithms the likely values add up, and the distances
from them to the ends add up as independent errors do, as the root of the summed squares.
"""

from collections.abc import Sequence
from math import exp, hypot, log, sqrt
from typing import NamedTuple

from diagnose.diagnosis import Estimate, PlanStep, Speedup
from diagnose.diagnosis.terms import expected_range


class _Logs(NamedTuple):
    """The logarithms of the cases of a gain, and of the ends of its expected range."""

    worst: float
    low: float
    likely: float
    high: float
    best: float


def joint_gains(steps: Sequence[PlanStep]) -> list[Estimate | None]:
    """[low, likely, high] of the plan up to each step; null from the first step on whose gain has an open end.

    The replay of the changes as one, where there is one, bounds it: time that two of them save is saved once.
    """
    gains: list[Estimate | None] = []
    each: list[_Logs] = []
    bounds: Speedup = (1.0, 1.0)
    for step in steps:
        logs = _logs(step)
        if logs is None or len(each) < len(gains):
            gains.append(None)
            continue
        each.append(logs)
        bounds = step.cumulative_speedup or _times(bounds, step.predicted_speedup)
        gains.append(None if bounds[1] is None else _within(each, bounds[0], bounds[1]))
    return gains


def _logs(step: PlanStep) -> _Logs | None:
    cases, gain = step.predicted_speedup, expected_range(step)
    if cases is None or cases[1] is None or cases[0] <= 0 or gain is None or gain[1] is None:
        return None
    likely = step.likely_speedup or sqrt(cases[0] * cases[1])
    return _Logs(log(cases[0]), log(gain[0]), log(likely), log(gain[1]), log(cases[1]))


def _times(one: Speedup, other: Speedup | None) -> Speedup:
    assert other is not None
    assert one[1] is not None
    assert other[1] is not None
    return one[0] * other[0], one[1] * other[1]


def _within(each: Sequence[_Logs], worst: float, best: float) -> Estimate:
    """The joint range between the bounds: likely as far from the worst as the sum of the likely values is."""
    below, above = sum(of.likely - of.worst for of in each), sum(of.best - of.likely for of in each)
    position = below / (below + above) if below + above > 0 else 0.5
    middle = (1 - position) * log(worst) + position * log(best)
    down = hypot(*(of.likely - of.low for of in each)) / below if below > 0 else 0.0
    up = hypot(*(of.high - of.likely for of in each)) / above if above > 0 else 0.0
    return (exp(middle - down * (middle - log(worst))), exp(middle), exp(middle + up * (log(best) - middle)))
