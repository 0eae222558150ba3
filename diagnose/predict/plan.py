"""The plan: which change comes first, and what comes after it."""

from collections.abc import Sequence
from dataclasses import dataclass

from diagnose.diagnosis import Speedup
from diagnose.predict.whatif import Predictor
from diagnose.rule import Rule

WORTH_PLANNING = 1.02
MOST_PLANNED = 5
EFFORTS = ("setting", "code", "cluster")


@dataclass(frozen=True)
class Planned:
    """One remedy of the plan: its own gain after those before it, and that of all so far."""

    rule: Rule
    speedup: Speedup
    cumulative: Speedup
    below_noise: bool = False


def plan_of(predictor: Predictor, fired: Sequence[Rule], noise_share: float = 0.0) -> tuple[Planned, ...]:
    """The best remedy, then the best of the rest with it in place, until none buys 2 %.

    The best is the one whose worst case buys most; ties go to the best case, the least effort and unchanged numerics.
    What buys less than the noise comes after what buys more. A remedy that another excludes, or that sets what another
    sets, is not planned beside it.

    Args:
        predictor: predicts.
        fired: the rules whose faults are there.
        noise_share: how far steps lie apart, of the median one.
    """
    chosen: list[Rule] = []
    planned: list[Planned] = []
    left = [rule for rule in fired if rule.remedy is not None]
    together: Speedup = (1.0, 1.0)
    while left and len(planned) < MOST_PLANNED:
        ranges = {rule.id: predictor.predict(rule, chosen) for rule in left}
        open_ = [rule for rule in left if (found := ranges[rule.id]) is not None and pays(found)]
        if not open_:
            break
        best = max(open_, key=lambda rule: (not is_noise(ranges[rule.id], noise_share), _merit(rule, ranges[rule.id])))
        gain = ranges[best.id]
        assert gain is not None
        together = _both(together, gain)
        planned.append(Planned(best, gain, together, is_noise(gain, noise_share)))
        chosen.append(best)
        left = [rule for rule in left if rule is not best and not excluded(rule, best)]
    return tuple(planned)


def pays(gain: Speedup) -> bool:
    """Whether the best case buys 2 %, or nobody knows what it buys."""
    return gain[1] is None or gain[1] >= WORTH_PLANNING


def is_noise(gain: Speedup | None, noise_share: float) -> bool:
    """Whether the time that goes, even in the best case, is less than steps lie apart anyway."""
    return gain is not None and gain[1] is not None and 1 - 1 / gain[1] < noise_share


def _both(one: Speedup, other: Speedup) -> Speedup:
    """What two changes buy together, low ends with low ends and high with high."""
    return one[0] * other[0], None if one[1] is None or other[1] is None else one[1] * other[1]


def excluded(one: Rule, other: Rule) -> bool:
    """Whether the two are not done together: one says so, or both set the same key."""
    keys = [set(rule.patch.values) if rule.patch else set() for rule in (one, other)]
    return one.id in other.excludes or other.id in one.excludes or bool(keys[0] & keys[1])


def _merit(rule: Rule, gain: Speedup | None) -> tuple[float, float, int, bool, str]:
    """What the worst case buys, then the best case, both to two digits; then little effort and unchanged numerics."""
    low, high = gain or (1.0, 1.0)
    return round(low, 2), round(high or low, 2), -EFFORTS.index(rule.effort), not rule.numerics, rule.id
