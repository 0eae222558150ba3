"""The joint gain of the changes of a plan: their best cases hardly come true together, and nor do their worst.

Each gain lies anywhere in its range, whatever the others do: in logarithms the likely values add up, and the distances
from them to the ends add up as independent errors do, as the root of the summed squares.
"""

from collections.abc import Sequence
from math import exp, hypot, log, sqrt

from diagnose.diagnosis import Estimate, PlanStep, Speedup

_Logs = tuple[float, float, float]


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
    gain = step.predicted_speedup
    if gain is None or gain[1] is None or gain[0] <= 0:
        return None
    return log(gain[0]), log(step.likely_speedup or sqrt(gain[0] * gain[1])), log(gain[1])


def _times(one: Speedup, other: Speedup | None) -> Speedup:
    assert other is not None
    assert one[1] is not None
    assert other[1] is not None
    return one[0] * other[0], one[1] * other[1]


def _within(each: Sequence[_Logs], low: float, high: float) -> Estimate:
    """The joint range between the bounds: likely as far from the low one as the sum of the likely values is."""
    lows, likely, highs = (sum(part) for part in zip(*each, strict=True))
    below, above = [mid - least for least, mid, _ in each], [most - mid for _, mid, most in each]
    position = (likely - lows) / (highs - lows) if highs > lows else 0.5
    middle = (1 - position) * log(low) + position * log(high)
    return (
        exp(middle - _shrunk(below) * (middle - log(low))),
        exp(middle),
        exp(middle + _shrunk(above) * (log(high) - middle)),
    )


def _shrunk(widths: Sequence[float]) -> float:
    """Independent widths together over their sum."""
    return hypot(*widths) / sum(widths) if sum(widths) > 0 else 0.0
