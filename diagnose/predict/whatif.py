"""Predictions: the remedies of rules put into the replay of the step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np

from diagnose.arrays import Floats, Mask
from diagnose.attribution.causes import IDLE_FOR_INPUT, OPERATORS
from diagnose.attribution.idle import Host
from diagnose.defects import netted
from diagnose.facts import Facts, Unknown
from diagnose.metrics import Measured
from diagnose.metrics.kernel_groups.phases import optimizer_apart
from diagnose.metrics.kernel_groups.registry import GROUPS, Group
from diagnose.predict.replay import Change, Replay, host_speed_for
from diagnose.rule import Rule
from diagnose.rule.remedy import Case, Factors, Remedy
from diagnose.rule.rule_file import Waits
from diagnose.trace.record import unprofiled_ns
from diagnose.trace.vocabulary import RUNTIME, SYNCHRONISATION

WIDEST = 1.35
AS_PROFILED = "the host's time is as profiled, and less without the profiler"
Range = tuple[float, float]


@dataclass(frozen=True)
class Changed:
    """A change to the replayed step, and the factor on its speed beside it: more tokens, a share that goes."""

    change: Change
    gain: float = 1.0


NOTHING = Changed(Change())


class Predictor:
    """What remedies would do to one rank's step.

    Args:
        measured: the rank, one that is no straggler.
        facts: of the job, which the factors of remedies are computed from.
        fired: the rules whose faults are there. Those that ask for the same change as another are cured with it.
    """

    def __init__(self, measured: Measured, facts: Facts, fired: Sequence[Rule] = ()) -> None:
        self.measured, self.facts, self.fired = measured, facts, fired
        self._before: dict[tuple[Case, tuple[str, ...]], tuple[Changed, float] | None] = {}
        self._groups: dict[str, Group] = {}

    @cached_property
    def replay(self) -> Replay:
        """The replay of the rank's steps."""
        return netted("replay", self._replayed, Replay.failed)

    def _replayed(self) -> Replay:
        replay = Replay.of(self.measured.timeline, self.measured.attribution)
        replay.step_ns()
        return replay

    @cached_property
    def host_speed(self) -> float:
        """Factor on host time from the profiled to the unprofiled speed; 1 without unprofiled steps."""
        control = self._unprofiled_ns
        return host_speed_for(self.replay, float(np.median(control))) if control else 1.0

    @cached_property
    def _unprofiled_ns(self) -> list[float]:
        """Times of the steps that the capture took without the profiler."""
        return unprofiled_ns(self.measured.record)

    @cached_property
    def _may_be_waiting(self) -> bool:
        """Whether nobody knows what of the collectives is transfer: a late rank makes no faster transfer help."""
        fact = self.facts.get("waiting_share")
        return fact is not None and not fact.known

    @cached_property
    def _without_transfer(self) -> float:
        """The speed of a step that waits for ranks and transfers nothing: no change of the transfers buys more."""
        fact = self.facts.get("transfer_share")
        known = fact is not None and not isinstance(fact.value, Unknown)
        return 1 / max(1 - float(fact.value), 1e-3) if known and fact is not None else np.inf  # type: ignore[arg-type]

    def predict(self, rule: Rule, after: Sequence[Rule] = ()) -> Range | None:
        """[low, high] of the step's speed by the remedy when those of `after` are in place; None where unknown.

        The change cures all of `cured(rule)`. A range wider than 1.35 is cut at its upper end: what is promised is
        the part that the worst case supports.
        """
        if rule.remedy is None or (rule.remedy.replayed and not self.replay.valid):
            return None
        gains = [self._gain(rule, after, case) for case in ("worst", "best")]
        known = [gain for gain in gains if gain is not None]
        if len(known) < len(gains) or min(known) == np.inf:
            return None
        low, high = max(min(known), 1.0), max(*known, 1.0)
        if rule.class_ == "communication":
            most = self._without_transfer
            low, high = min(low, most), min(high, most)
        return low, min(high, low * WIDEST) if self.assumes(rule) else high

    def cured(self, rule: Rule) -> tuple[Rule, ...]:
        """The rule, and those that fired, ask for the very same change, and say what it does in the same way."""
        patch, replayed = rule.patch_for(self.facts), rule.remedy is not None and rule.remedy.replayed
        alike = (
            other
            for other in self.fired
            if other.id != rule.id and other.remedy and other.remedy.replayed == replayed
            if patch and other.patch_for(self.facts) == patch
        )
        return rule, *alike

    def assumes(self, rule: Rule) -> str:
        """What the prediction rests on."""
        remedies = [cured.remedy for cured in self.cured(rule) if cured.remedy]
        each = [remedy.assumes for remedy in remedies]
        if any(remedy.host or remedy.launches for remedy in remedies) and not self._is_calibrated:
            each.append(AS_PROFILED)
        return "; ".join(dict.fromkeys(text for text in each if text))

    @property
    def _is_calibrated(self) -> bool:
        return bool(self._unprofiled_ns) or not self.measured.timeline.has_gpu

    def _gain(self, rule: Rule, after: Sequence[Rule], case: Case) -> float | None:
        before, alone = self._all(after, case), self._own(rule, case)
        if before is None or alone is None:
            return None
        if case == "worst" and rule.class_ == "communication" and self._may_be_waiting:
            return 1.0
        if not (rule.remedy and rule.remedy.replayed):
            return alone.gain
        together = self._all((*after, rule), case)
        assert together is not None
        now, then = before[1], together[1]
        return now / then if then > 0 else np.inf

    def _time(self, changed: Changed) -> float:
        """Nanoseconds for the tokens of one step of now."""
        speed = replace(changed.change, host_speed=self.host_speed)
        return float(self.replay.step_ns(speed)) / changed.gain

    def _all(self, rules: Sequence[Rule], case: Case) -> tuple[Changed, float] | None:
        """The changes of the rules together, and the time of a step with them."""
        key = case, tuple(rule.id for rule in rules)
        if key not in self._before:
            each = [self._own(rule, case) for rule in rules]
            known = [changed for changed in each if changed is not None]
            together = reduce(combined, known, NOTHING)
            self._before[key] = (together, self._time(together)) if len(known) == len(each) else None
        return self._before[key]

    def _own(self, rule: Rule, case: Case) -> Changed | None:
        """What the rule's change does, to the faults of other rules too; None where that of the rule is unknown."""
        changed = self._changed(rule.remedy, case)
        for other in self.cured(rule)[1:]:
            more = self._changed(other.remedy, case)
            changed = changed if changed is None or more is None else joined(changed, more)
        return changed

    def _changed(self, remedy: Remedy | None, case: Case) -> Changed | None:
        factors = remedy.factors(self.facts, case) if remedy else None
        if remedy is None or factors is None:
            return None
        gain = factors.tokens / (1 - factors.removed)
        if not remedy.replayed:
            return Changed(NOTHING.change, gain)
        if remedy.kernels and not (self.measured.timeline.has_gpu or {*OPERATORS} & {*remedy.host}):
            return None  # without a GPU operators are what kernels are with one
        kernels = self._kernels(factors)
        merged = self._merged(remedy)
        if isinstance(kernels, Unknown) or isinstance(merged, Unknown):
            return None
        change = Change(
            kernels=kernels,
            merge=merged,
            host=self._host(factors),
            no_wait=None if remedy.waits is None else self._waits(remedy.waits, case),
            launches=factors.launches,
            communication=factors.communication,
            overlap=remedy.hides,
        )
        return Changed(change, gain)

    def _host(self, factors: Factors) -> Mapping[str, float]:
        """Factors on host time: a larger batch takes longer to load, and without a GPU to compute."""
        if factors.tokens == 1:
            return factors.host
        causes = IDLE_FOR_INPUT if self.measured.timeline.has_gpu else (*IDLE_FOR_INPUT, *OPERATORS)
        return {**factors.host, **{cause: factors.host.get(cause, 1.0) * factors.tokens for cause in causes}}

    def _kernels(self, factors: Factors) -> Floats | Unknown | None:
        """Factor of each activity; a larger batch lengthens all kernels but the optimizer's in proportion."""
        if not len(self.measured.timeline.gpu) or not (factors.kernels or factors.tokens != 1):
            return None
        factor_of = np.ones(len(self.measured.timeline.gpu))
        if factors.tokens != 1:
            factor_of[optimizer_apart(self.measured) | self.measured.timeline.gpu.is_copy] *= factors.tokens
        for name, factor in factors.kernels.items():
            group = self._group(name)
            if isinstance(group, Unknown):
                return group
            factor_of[group] *= factor
        return factor_of

    def _group(self, name: str) -> Group:
        if name not in self._groups:
            self._groups[name] = GROUPS[name](self.measured)
        return self._groups[name]

    def _merged(self, remedy: Remedy) -> Mask | Unknown | None:
        if not remedy.fuses or not len(self.measured.timeline.gpu):
            return None
        merged = np.zeros(len(self.measured.timeline.gpu), bool)
        for name in remedy.fuses:
            group = self._group(name)
            if isinstance(group, Unknown):
                return group
            merged |= group
        return merged

    def _waits(self, which: Waits, case: Case) -> Mask | None:
        """Mask over the trace of the calls that no longer wait.

        None in the worst case of a job with collectives: what a rank gains there, it waits for the other ranks.
        """
        line = self.measured.timeline
        if case == "worst" and line.gpu.is_communication.any():
            return None
        to_device, to_host = Host(line).long_copies()
        return to_device if which == "copies" else to_host | line.matching(SYNCHRONISATION, *RUNTIME)


def combined(one: Changed, other: Changed) -> Changed:
    """Both changes together: factors multiply, masks join."""
    a, b = one.change, other.change
    change = Change(
        kernels=_product(a.kernels, b.kernels),
        merge=_either(a.merge, b.merge),
        host={cause: a.host.get(cause, 1.0) * b.host.get(cause, 1.0) for cause in {*a.host, *b.host}},
        no_wait=_either(a.no_wait, b.no_wait),
        launches=a.launches * b.launches,
        communication=a.communication * b.communication,
        overlap=a.overlap or b.overlap,
    )
    return Changed(change, one.gain * other.gain)


def joined(one: Changed, other: Changed) -> Changed:
    """One change by two accounts of what it does: each part as far as the bolder account goes, never both in turn."""
    a, b = one.change, other.change
    change = Change(
        kernels=_bolder_each(a.kernels, b.kernels),
        merge=_either(a.merge, b.merge),
        host={cause: _bolder(a.host.get(cause, 1.0), b.host.get(cause, 1.0)) for cause in {*a.host, *b.host}},
        no_wait=_either(a.no_wait, b.no_wait),
        launches=min(a.launches, b.launches),
        communication=min(a.communication, b.communication),
        overlap=a.overlap or b.overlap,
    )
    return Changed(change, max(one.gain, other.gain))


def _product(a: Floats | None, b: Floats | None) -> Floats | None:
    return b if a is None else a if b is None else a * b


def _either(a: Mask | None, b: Mask | None) -> Mask | None:
    return b if a is None else a if b is None else a | b


def _bolder(a: float, b: float) -> float:
    return min(a, b) if min(a, b) < 1 else max(a, b)


def _bolder_each(a: Floats | None, b: Floats | None) -> Floats | None:
    if a is None or b is None:
        return b if a is None else a
    least = np.minimum(a, b)
    return np.where(least < 1, least, np.maximum(a, b))
