"""The plan: which change comes first, and what comes after it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import msgspec

from diagnose.diagnosis import Speedup
from diagnose.diagnosis.terms import may_slow
from diagnose.predict.whatif import Predictor
from diagnose.rule import Rule
from diagnose.rule.rule_file import Answer

WORTH_PLANNING = 1.02
WORTH_A_TRY = 1.05  # if less than WORTH_PLANNING is sure: what gains less at best, nobody sees in a trial
MOST_PLANNED = 5
EFFORTS = ("setting", "code", "cluster")
ALIKE = 0.02  # of a speedup: closer gains count as equal

_Merit = tuple[bool, bool, bool, bool, float, float, int, bool, str]


class Weight(msgspec.Struct, frozen=True):
    """How much a fault matters apart from its predicted gain: its severity, and whether its class bounds the step.

    `yields_to` are the fired rules that exclude its own: if one of them is predicted to gain more, severity gives no
    precedence, since both are about the same time. `gentler`, for a change of numerics that is for information or makes
    the batch larger, are the fired rules that leave numerics alone and come first if they pay. `noise_share` is the
    spread of the steps that hides the gain, 0 if what the fault rests on does not vary with them. `suspected` is a
    fault that too few steps show: it opens no plan.
    """

    severity: str = "info"
    bounds_step: bool = False
    yields_to: frozenset[str] = frozenset()
    gentler: frozenset[str] = frozenset()
    noise_share: float = 0.0
    suspected: bool = False

    def is_noise(self, gain: Speedup | None) -> bool:
        """Whether the time that goes, even in the best case, is less than steps lie apart anyway."""
        return is_within(gain, self.noise_share)

    def yields(self, gain: Speedup | None, ranges: Mapping[str, Speedup | None]) -> bool:
        """Whether a rule that excludes this one gains more: in the worst case, to two digits, else in the best."""
        promised = [_to_compare(ranges.get(name)) for name in self.yields_to]
        return max(promised, default=_to_compare(None)) > _to_compare(gain)

    def leads(self, gain: Speedup | None) -> bool:
        """Whether the fault is critical, and its cure pays, or may pay if the fault's class bounds the step.

        A cure that may slow the step down leads nothing.
        """
        if gain is None or self.severity != "critical" or may_slow(gain):
            return False
        return gain[0] >= WORTH_PLANNING or (self.bounds_step and pays(gain))

    def promise(self, gain: Speedup | None) -> float:
        """The worst case; or the best case, if only that is known for a critical fault whose class bounds the step."""
        worst = promised(gain)
        return _most(gain) if self.leads(gain) and worst < WORTH_PLANNING else worst

    def follows(self, gain: Speedup | None, others: Iterable[tuple["Weight", Speedup | None]]) -> bool:
        """Whether the fault is for information, and a critical one's cure may gain more than its own at best."""
        critical = [_most(each) for weight, each in others if weight.severity == "critical"]
        return self.severity == "info" and max(critical, default=1.0) > _most(gain)

    def awaited(self, weights: Mapping[str, "Weight"], ranges: Mapping[str, Speedup | None]) -> list[Speedup]:
        """Gains of the gentler changes that come first: those sure to pay, or able to pay and more than information.

        Nothing waits for a change that may slow the step down.
        """
        stated = ((weights[name], ranges[name]) for name in self.gentler & ranges.keys())
        known = ((weight, gain) for weight, gain in stated if gain is not None and pays(gain) and not may_slow(gain))
        return [gain for weight, gain in known if weight.severity != "info" or gain[0] >= WORTH_PLANNING]


class PlannedRemedy(msgspec.Struct, frozen=True):
    """One remedy of the plan: its own gain after those before it, and that of all so far, None if that is unknown."""

    rule: Rule
    speedup: Speedup
    cumulative: Speedup | None
    below_noise: bool = False


def severity_of(answer: Answer, gain: Speedup | None) -> Answer:
    """The severity of a fault by the gain of its cure: a change that may slow the step down is never critical."""
    return "warning" if answer == "critical" and may_slow(gain) else answer


def hiding(rule: Rule, noise_share: float) -> float:
    """The spread of the steps that hides what the rule's change gains.

    It is 0 for evidence that is counted, which is as large however steps vary, and for savings over the run, which
    steps do not show.
    """
    of_steps = rule.evidence == "time" and (rule.remedy is None or rule.remedy.over == "step")
    return noise_share if of_steps else 0.0


def plan_of(
    predictor: Predictor, fired: Sequence[Rule], weights: Mapping[str, Weight] | None = None
) -> tuple[PlannedRemedy, ...]:
    """Plan the best remedy, then the best of the rest with it in place, until none pays.

    A critical fault comes first if its cure pays, or may pay and its class bounds the step, unless another change is
    sure to gain more than it can. A change for information comes after a critical fault whose cure may gain more and,
    if it alters numerics, after each gentler change that pays. Of the rest, the best is the one with the highest worst
    case; ties go to the best case, the least effort and unchanged numerics. A change of numerics comes after one of
    similar gain that leaves them alone and takes no more effort. Gains below the noise come after gains above it, and
    what may slow the step down comes after what is sure not to. A remedy that another one excludes, or that sets the
    same key, is not planned together with it.

    Args:
        predictor: predicts the gains.
        fired: the rules whose faults are there.
        weights: how much each fault matters, by rule.
    """
    weight = {rule.id: (weights or {}).get(rule.id, Weight()) for rule in fired}
    chosen: list[Rule] = []
    planned: list[PlannedRemedy] = []
    left = [rule for rule in fired if rule.remedy is not None and rule.class_ != "validity"]
    while left and len(planned) < MOST_PLANNED:
        ranges = {rule.id: predictor.predict(rule, chosen) for rule in left}
        open_ = [rule for rule in left if (found := ranges[rule.id]) is not None and pays(found)]
        open_ = [rule for rule in open_ if chosen or not weight[rule.id].suspected]
        if not open_:
            break
        merit = partial(_merit, ranges, weight)
        best = max(open_, key=merit)
        best = max((rule for rule in open_ if _is_gentler(rule, best, ranges, merit)), key=merit, default=best)
        gain = ranges[best.id]
        assert gain is not None
        chosen.append(best)
        together = _no_worse(predictor.together(chosen), planned)
        planned.append(PlannedRemedy(best, gain, together, weight[best.id].is_noise(gain)))
        left = [rule for rule in left if rule is not best and not excluded(rule, best)]
    return tuple(planned)


def pays(gain: Speedup) -> bool:
    """Whether a change is worth a try: 2 % are sure, 5 % are possible, or the best case is unknown."""
    return gain[1] is None or gain[1] >= WORTH_A_TRY or gain[0] >= WORTH_PLANNING


def is_within(gain: Speedup | None, noise_share: float) -> bool:
    """Whether the time that goes, even in the best case, is less than the noise."""
    return gain is not None and gain[1] is not None and 1 - 1 / gain[1] < noise_share


def _no_worse(together: Speedup | None, before: Sequence[PlannedRemedy]) -> Speedup | None:
    """The gain of the plan so far: what turns out to slow the step is undone."""
    if together is None or not before or (last := before[-1].cumulative) is None:
        return together
    high = None if together[1] is None or last[1] is None else max(together[1], last[1])
    return max(together[0], promised(last)), high


def excluded(one: Rule, other: Rule) -> bool:
    """Whether the two cannot be combined: one excludes the other, or both set the same key."""
    keys = [set(rule.patch.values) if rule.patch else set() for rule in (one, other)]
    return one.id in other.excludes or other.id in one.excludes or bool(keys[0] & keys[1])


def _most(gain: Speedup | None) -> float:
    """The best case, or the worst if the best is unknown."""
    return 1.0 if gain is None else gain[1] or gain[0]


def promised(gain: Speedup | None) -> float:
    """The gain of a change in its worst case: none if it slows the step, since it would then be undone."""
    return 1.0 if gain is None else max(gain[0], 1.0)


def _to_compare(gain: Speedup | None) -> tuple[float, float]:
    return round(promised(gain), 2), _most(gain)


def _surpassed(gain: Speedup | None, ranges: Iterable[Speedup | None]) -> bool:
    """Whether another change, which waits for none, gains more in its worst case than this one at best."""
    best = None if gain is None else gain[1]
    return best is not None and any(other is not None and other[0] > best for other in ranges)


def _is_gentler(rule: Rule, best: Rule, ranges: Mapping[str, Speedup | None], merit: Callable[[Rule], _Merit]) -> bool:
    """Whether the rule's change gains about as much as the best one, which alters numerics, with no more effort."""
    if rule.numerics or not best.numerics or EFFORTS.index(rule.effort) > EFFORTS.index(best.effort):
        return False
    (worst, most), (least, other) = ((promised(ranges[each.id]), _most(ranges[each.id])) for each in (best, rule))
    alike = least > worst - ALIKE and other > most - ALIKE
    return alike and merit(rule)[:4] == merit(best)[:4]


def _merit(ranges: Mapping[str, Speedup | None], weights: Mapping[str, Weight], rule: Rule) -> _Merit:
    """Sort key: above the noise, no slower, leading, waiting for no other change, worst and best case to two digits,
    then effort.
    """
    gain, weight = ranges[rule.id], weights[rule.id]
    rivals = (each for name, each in ranges.items() if not weights[name].awaited(weights, ranges))
    others = ((weights[name], each) for name, each in ranges.items())
    return (
        not weight.is_noise(gain),
        not may_slow(gain),
        weight.leads(gain) and not _surpassed(gain, rivals) and not weight.yields(gain, ranges),
        not weight.follows(gain, others) and not weight.awaited(weights, ranges),
        round(weight.promise(gain), 2),
        round(_most(gain), 2),
        -EFFORTS.index(rule.effort),
        not rule.numerics,
        rule.id,
    )
