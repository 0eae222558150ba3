"""Predictions: each remedy put into the replay of the step, and the plan that takes the best one after the other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from diagnose.facts import Facts, Unknown
from diagnose.idle import Host
from diagnose.metrics import Measured
from diagnose.metrics.groups import NAMES
from diagnose.remedy import Case, Factors, Remedy
from diagnose.replay import Change, Replay, host_speed_for
from diagnose.rule import Rule
from diagnose.rule_file import Waits
from diagnose.vocabulary import RUNTIME, SYNCHRONISATION

WIDEST = 1.35
WORTH_PLANNING = 1.02
MOST_PLANNED = 5
EFFORTS = ("setting", "code", "cluster")
Range = tuple[float, float]


@dataclass(frozen=True)
class Changed:
    """A change to the replayed step, and the factor on its speed beside it: more tokens, a share that goes."""

    change: Change
    gain: float = 1.0


NOTHING = Changed(Change())


@dataclass(frozen=True)
class Planned:
    """One remedy of the plan: its own gain after those before it, and the gain of all so far."""

    rule: Rule
    speedup: Range
    cumulative: Range


class Outlook:
    """What remedies would do to one rank's step.

    Args:
        measured: the rank, one that is no straggler.
        facts: of the job, which the factors of remedies are computed from.
    """

    def __init__(self, measured: Measured, facts: Facts) -> None:
        self.measured, self.facts = measured, facts

    @cached_property
    def replay(self) -> Replay:
        """The replay of the rank's steps."""
        return Replay.of(self.measured.timeline, self.measured.attribution)

    @cached_property
    def host_speed(self) -> float:
        """Factor on host time from the profiled to the unprofiled speed; 1 without unprofiled steps."""
        times = self.measured.record.get("steps")
        control = [
            ns
            for key in ("control_before_ns", "control_after_ns")
            if isinstance(times, Mapping) and isinstance(found := times.get(key), list)
            for ns in found
            if isinstance(ns, int | float)
        ]
        return host_speed_for(self.replay, float(np.median(control))) if control else 1.0

    def predict(self, rule: Rule, after: Sequence[Rule] = ()) -> Range | None:
        """[low, high] of the step's speed by the remedy when those of `after` are in place; None where unknown.

        A range wider than 1.35 is cut at its upper end: what is promised is the part that the worst case supports.
        """
        remedy = rule.remedy
        if remedy is None or (remedy.replayed and not self.replay.valid):
            return None
        found = [self._gain(rule, after, case) for case in ("worst", "best")]
        known = [gain for gain in found if gain is not None]
        if len(known) < len(found):
            return None
        low, high = max(min(known), 1.0), max(*known, 1.0)
        return low, min(high, low * WIDEST) if remedy.assumes else high

    def _gain(self, rule: Rule, after: Sequence[Rule], case: Case) -> float | None:
        before, own = self._all(after, case), self._changed(rule.remedy, case)
        if before is None or own is None:
            return None
        if own.change is NOTHING.change:
            return own.gain
        now, then = self._time(before), self._time(combined(before, own))
        return now / then if then > 0 else None

    def _time(self, changed: Changed) -> float:
        """Nanoseconds for the tokens of one step of now."""
        speed = replace(changed.change, host_speed=self.host_speed)
        return float(self.replay.step_ns(speed)) / changed.gain

    def _all(self, rules: Sequence[Rule], case: Case) -> Changed | None:
        found = NOTHING
        for rule in rules:
            own = self._changed(rule.remedy, case)
            if own is None:
                return None
            found = combined(found, own)
        return found

    def _changed(self, remedy: Remedy | None, case: Case) -> Changed | None:
        factors = remedy.factors(self.facts, case) if remedy else None
        if remedy is None or factors is None:
            return None
        gain = factors.tokens / (1 - factors.removed)
        if not remedy.replayed:
            return Changed(NOTHING.change, gain)
        kernels = self._kernels(factors)
        merged = self._merged(remedy)
        if isinstance(kernels, Unknown) or isinstance(merged, Unknown):
            return None
        change = Change(
            kernels=kernels,
            merge=merged,
            host=factors.host,
            no_wait=None if remedy.waits is None else self._waits(remedy.waits),
            launches=factors.launches,
            communication=factors.communication,
            overlap=remedy.hides,
        )
        return Changed(change, gain)

    def _kernels(self, factors: Factors) -> NDArray[np.float64] | Unknown | None:
        """Factor of each activity; a larger batch lengthens all kernels but the optimizer's in proportion."""
        if not len(self.measured.timeline.gpu) or not (factors.kernels or factors.tokens != 1):
            return None
        found = np.ones(len(self.measured.timeline.gpu))
        if factors.tokens != 1:
            found[self._group("not-optimizer")] *= factors.tokens
        for name, factor in factors.kernels.items():
            group = NAMES[name](self.measured)
            if isinstance(group, Unknown):
                return group
            found[group] *= factor
        return found

    def _group(self, name: str) -> NDArray[np.bool_]:
        group = NAMES[name](self.measured)
        return np.zeros(len(self.measured.timeline.gpu), bool) if isinstance(group, Unknown) else group

    def _merged(self, remedy: Remedy) -> NDArray[np.bool_] | Unknown | None:
        if not remedy.fuses or not len(self.measured.timeline.gpu):
            return None
        found = np.zeros(len(self.measured.timeline.gpu), bool)
        for name in remedy.fuses:
            group = NAMES[name](self.measured)
            if isinstance(group, Unknown):
                return group
            found |= group
        return found

    def _waits(self, which: Waits) -> NDArray[np.bool_]:
        """Mask over the trace of the calls that no longer wait."""
        line = self.measured.timeline
        to_device, to_host = Host(line).long_copies()
        return to_device if which == "copies" else to_host | line.matching(SYNCHRONISATION, *RUNTIME)


def plan_of(outlook: Outlook, fired: Sequence[Rule]) -> tuple[Planned, ...]:
    """The best remedy, then the best of the rest with it in place, until none buys 2 %.

    The best is the one whose worst case buys most; ties go to the best case, the least effort and unchanged numerics.
    A remedy that another excludes, or that sets what another sets, is not planned beside it.
    """
    chosen: list[Rule] = []
    planned: list[Planned] = []
    left = [rule for rule in fired if rule.remedy is not None]
    low = high = 1.0
    while left and len(planned) < MOST_PLANNED:
        ranges = {rule.id: outlook.predict(rule, chosen) for rule in left}
        open_ = [rule for rule in left if (found := ranges[rule.id]) is not None and found[1] >= WORTH_PLANNING]
        if not open_:
            break
        best = max(open_, key=lambda rule: _merit(rule, ranges[rule.id]))
        gain = ranges[best.id]
        assert gain is not None
        low, high = low * gain[0], high * gain[1]
        planned.append(Planned(best, gain, (low, high)))
        chosen.append(best)
        left = [rule for rule in left if rule is not best and not excluded(rule, best)]
    return tuple(planned)


def excluded(one: Rule, other: Rule) -> bool:
    """Whether the two are not done together: one says so, or both set the same key."""
    keys = [set(rule.patch.values) if rule.patch else set() for rule in (one, other)]
    return one.id in other.excludes or other.id in one.excludes or bool(keys[0] & keys[1])


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


def _merit(rule: Rule, gain: Range | None) -> tuple[float, float, int, bool, str]:
    """What the worst case buys, then the best case, both to two digits; then little effort and unchanged numerics."""
    low, high = gain or (1.0, 1.0)
    return round(low, 2), round(high, 2), -EFFORTS.index(rule.effort), not rule.numerics, rule.id


def _product(a: NDArray[np.float64] | None, b: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
    return b if a is None else a if b is None else a * b


def _either(a: NDArray[np.bool_] | None, b: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    return b if a is None else a if b is None else a | b
