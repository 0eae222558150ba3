"""The plan: which change comes first, and what comes after it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import msgspec

from diagnose.diagnosis import Speedup
from diagnose.predict.whatif import Predictor
from diagnose.rule import Rule

WORTH_PLANNING = 1.02
MOST_PLANNED = 5
EFFORTS = ("setting", "code", "cluster")
ALIKE = 0.02  # of a speedup: nobody tells gains apart that lie closer

_Merit = tuple[bool, bool, bool, float, float, int, bool, str]


class Weight(msgspec.Struct, frozen=True):
    """How much a fault matters beside what its cure buys: its severity, and whether it is of what bounds the step.

    `yields_to` are the rules that fired and that exclude its own: where one of them promises more, severity gives
    no precedence, since both speak of the same time.
    `gentler` are, of a change of numerics that is for information or makes the batch larger, the rules that fired,
    leave numerics alone and come first if they pay.
    """

    severity: str = "info"
    bounds_step: bool = False
    yields_to: frozenset[str] = frozenset()
    gentler: frozenset[str] = frozenset()

    def yields(self, gain: Speedup | None, ranges: Mapping[str, Speedup | None]) -> bool:
        """Whether a rule that excludes this one promises more: in the worst case, to two digits, else in the best."""
        promised = [_to_compare(ranges.get(name)) for name in self.yields_to]
        return max(promised, default=_to_compare(None)) > _to_compare(gain)

    def leads(self, gain: Speedup | None) -> bool:
        """Whether the fault is critical, and its cure pays, or may pay where the fault is of what bounds the step.

        A cure that may slow the step down leads nothing.
        """
        if gain is None or self.severity != "critical" or gain[0] < 1:
            return False
        return gain[0] >= WORTH_PLANNING or (self.bounds_step and pays(gain))

    def promise(self, gain: Speedup | None) -> float:
        """The worst case; the best one where that alone is known of a critical fault of what bounds the step."""
        worst = promised(gain)
        return _most(gain) if self.leads(gain) and worst < WORTH_PLANNING else worst

    def follows(self, gain: Speedup | None, others: Iterable[tuple["Weight", Speedup | None]]) -> bool:
        """Whether the fault is for information, and a critical one's cure may buy more than its own at best."""
        critical = [_most(each) for weight, each in others if weight.severity == "critical"]
        return self.severity == "info" and max(critical, default=1.0) > _most(gain)

    def awaited(self, weights: Mapping[str, "Weight"], ranges: Mapping[str, Speedup | None]) -> list[Speedup]:
        """What the gentler changes buy that come first: sure to pay, or able to and a cure of more than information."""
        stated = ((weights[name], ranges[name]) for name in self.gentler & ranges.keys())
        known = ((weight, gain) for weight, gain in stated if gain is not None and pays(gain))
        return [gain for weight, gain in known if weight.severity != "info" or gain[0] >= WORTH_PLANNING]


class Planned(msgspec.Struct, frozen=True):
    """One remedy of the plan: its own gain after those before it, and that of all so far."""

    rule: Rule
    speedup: Speedup
    cumulative: Speedup
    below_noise: bool = False


def plan_of(
    predictor: Predictor, fired: Sequence[Rule], noise_share: float = 0.0, weights: Mapping[str, Weight] | None = None
) -> tuple[Planned, ...]:
    """The best remedy, then the best of the rest with it in place, until none buys 2 %.

    What is critical comes first where it pays, or may pay and is of what bounds the step, unless another change is
    sure to buy more than it can; what is for information comes after a critical fault whose cure may buy more, and,
    where it alters numerics, after each gentler change that pays. The best of those that are left is the one that
    promises most; ties go to the best case, the least effort and unchanged numerics. A change of numerics comes after
    one of like gain that leaves them alone and takes no more effort. What buys less than the noise comes after what
    buys more; how far steps lie apart says nothing about what is saved over the run. A remedy that another excludes,
    or that sets what another sets, is not planned beside it.

    Args:
        predictor: predicts.
        fired: the rules whose faults are there.
        noise_share: how far steps lie apart, of the median one.
        weights: how much each fault matters, by rule.
    """
    weight = {rule.id: (weights or {}).get(rule.id, Weight()) for rule in fired}
    chosen: list[Rule] = []
    planned: list[Planned] = []
    left = [rule for rule in fired if rule.remedy is not None]
    noise = {rule.id: noise_share if rule.remedy and rule.remedy.over == "step" else 0.0 for rule in left}
    together: Speedup = (1.0, 1.0)
    while left and len(planned) < MOST_PLANNED:
        ranges = {rule.id: predictor.predict(rule, chosen) for rule in left}
        open_ = [rule for rule in left if (found := ranges[rule.id]) is not None and pays(found)]
        if not open_:
            break
        merit = partial(_merit, ranges, noise, weight)
        best = max(open_, key=merit)
        best = max((rule for rule in open_ if _is_gentler(rule, best, ranges, merit)), key=merit, default=best)
        gain = ranges[best.id]
        assert gain is not None
        together = _both(together, gain)
        planned.append(Planned(best, gain, together, _is_noise(gain, noise[best.id])))
        chosen.append(best)
        left = [rule for rule in left if rule is not best and not excluded(rule, best)]
    return tuple(planned)


def pays(gain: Speedup) -> bool:
    """Whether the best case buys 2 %, or nobody knows what it buys."""
    return gain[1] is None or gain[1] >= WORTH_PLANNING


def _is_noise(gain: Speedup | None, noise_share: float) -> bool:
    """Whether the time that goes, even in the best case, is less than steps lie apart anyway."""
    return gain is not None and gain[1] is not None and 1 - 1 / gain[1] < noise_share


def _both(one: Speedup, other: Speedup) -> Speedup:
    """What two changes buy together, worst cases with worst cases and best with best."""
    return one[0] * promised(other), None if one[1] is None or other[1] is None else one[1] * other[1]


def excluded(one: Rule, other: Rule) -> bool:
    """Whether the two are not done together: one says so, or both set the same key."""
    keys = [set(rule.patch.values) if rule.patch else set() for rule in (one, other)]
    return one.id in other.excludes or other.id in one.excludes or bool(keys[0] & keys[1])


def _most(gain: Speedup | None) -> float:
    """The best case, the worst where it is unknown."""
    return 1.0 if gain is None else gain[1] or gain[0]


def promised(gain: Speedup | None) -> float:
    """What a change buys in its worst case: nothing where it slows the step, since it is taken back then."""
    return 1.0 if gain is None else max(gain[0], 1.0)


def _to_compare(gain: Speedup | None) -> tuple[float, float]:
    return round(promised(gain), 2), _most(gain)


def _surpassed(gain: Speedup | None, ranges: Iterable[Speedup | None]) -> bool:
    """Whether another change buys more in its worst case than this one at best."""
    best = None if gain is None else gain[1]
    return best is not None and any(other is not None and other[0] > best for other in ranges)


def _is_gentler(rule: Rule, best: Rule, ranges: Mapping[str, Speedup | None], merit: Callable[[Rule], _Merit]) -> bool:
    """Whether the rule's change buys as much as that of the best one, which alters numerics, with less to be tried."""
    if rule.numerics or not best.numerics or EFFORTS.index(rule.effort) > EFFORTS.index(best.effort):
        return False
    (worst, most), (least, other) = ((promised(ranges[each.id]), _most(ranges[each.id])) for each in (best, rule))
    alike = least > worst - ALIKE and other > most - ALIKE
    return alike and merit(rule)[:3] == merit(best)[:3]


def _merit(
    ranges: Mapping[str, Speedup | None], noise: Mapping[str, float], weights: Mapping[str, Weight], rule: Rule
) -> _Merit:
    """What is not noise, what leads and what does not follow, then worst and best case to two digits, then effort."""
    gain, weight = ranges[rule.id], weights[rule.id]
    others = ((weights[name], each) for name, each in ranges.items())
    return (
        not _is_noise(gain, noise[rule.id]),
        weight.leads(gain) and not _surpassed(gain, ranges.values()) and not weight.yields(gain, ranges),
        not weight.follows(gain, others) and not weight.awaited(weights, ranges),
        round(weight.promise(gain), 2),
        round(_most(gain), 2),
        -EFFORTS.index(rule.effort),
        not rule.numerics,
        rule.id,
    )
