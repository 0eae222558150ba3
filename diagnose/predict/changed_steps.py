"""The time that a step of one rank takes with the changes of rules, by its replay at the host's unprofiled speed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, reduce

import numpy as np

from diagnose.arrays import Floats
from diagnose.diagnosis import Evidence
from diagnose.errors.defects import netted
from diagnose.facts import Facts
from diagnose.metrics import Measured
from diagnose.predict.booked import booked_on
from diagnose.predict.changed import NOTHING, ChangedStep, combined, joined, without_what_it_shortens
from diagnose.predict.crowded import on_core_part
from diagnose.predict.earned import evidence_of
from diagnose.predict.remedies import Remedies
from diagnose.predict.replay import (
    AS_PROFILED,
    HostSpeeds,
    Replay,
    host_speeds_ahead,
    host_speeds_for,
    likely_host_speeds_for,
)
from diagnose.rule import Rule
from diagnose.rule.remedy import Case
from diagnose.trace.distortion import distorted_by
from diagnose.trace.light_steps import ran_ahead_ns, shares_in_ranges
from diagnose.trace.record import unprofiled_ns


class ChangedSteps:
    """Replay one rank's step with the changes of rules.

    Args:
        measured: the rank, one that is no straggler.
        facts: facts of the job, from which the factors of remedies are computed.
        fired: the rules that fired. Those that ask for the same change as another are cured with it.
    """

    def __init__(self, measured: Measured, facts: Facts, fired: Sequence[Rule] = ()) -> None:
        self.measured, self.facts, self.fired = measured, facts, fired
        self._remedies = Remedies(measured, facts)
        self._before: dict[tuple[Case, tuple[str, ...]], tuple[ChangedStep, float] | None] = {}
        self._cured: dict[str, tuple[Rule, ...]] = {}
        self._evidence: dict[str, tuple[Evidence, ...]] = {}

    @cached_property
    def replay(self) -> Replay:
        """The replay of the rank's steps."""
        return netted("replay", self._replayed, Replay.failed)

    def _replayed(self) -> Replay:
        if self.measured.job.distortion is not None:
            return Replay.failed(distorted_by(self.measured.job.distortion).because)
        replay = Replay.of(self.measured.timeline, self.measured.attribution)
        replay.step_ns()
        return replay

    @cached_property
    def host_speeds(self) -> HostSpeeds:
        """Factors on host time from the profiled to the unprofiled speed; 1 without unprofiled steps.

        If a busy device hides the host's speed, it is that of the steps in which the host ran ahead of the device.
        """
        control = self._unprofiled_ns
        if not control:
            return AS_PROFILED
        step_ns = float(np.median(control))
        speeds = host_speeds_for(self.replay, step_ns, self._told_ns(step_ns))
        ahead_ns = ran_ahead_ns(self.measured.record)
        if ahead_ns is None or not self.measured.timeline.has_gpu or not speeds.is_as_profiled:
            return speeds
        return host_speeds_ahead(self.replay, len(self.measured.timeline.gpu), ahead_ns)

    @cached_property
    def _likely_host_speeds(self) -> HostSpeeds:
        """The host without the profiler in the best case: no slower than `host_speeds`, which a busy device hides."""
        if not (self._unprofiled_ns and self.measured.timeline.has_gpu and self.replay.valid):
            return self.host_speeds
        return likely_host_speeds_for(self.replay, self.host_speeds)

    def _speeds(self, case: Case) -> HostSpeeds:
        return self._likely_host_speeds if case == "best" else self.host_speeds

    def _told_ns(self, step_ns: float) -> dict[str, float]:
        """Nanoseconds by cause, from the ranges of a step without profiler and GPU, divided as in the window."""
        told: dict[str, float] = {}
        for causes, share in self._ranges.items():
            profiled = {c: self.replay.recorded[c].ns for c in causes if c in self.replay.recorded}
            part_ns = step_ns * share * (1 if causes == ("data-wait",) else on_core_part(self.replay.recorded))
            told |= {c: part_ns * ns / sum(profiled.values()) for c, ns in profiled.items()}
        return told

    @cached_property
    def _ranges(self) -> Mapping[tuple[str, ...], float]:
        """Shares of a step without the profiler and without a GPU by the causes that its ranges time.

        With a GPU there are none: what the host does may pass beside kernels.
        """
        return {} if self.measured.timeline.has_gpu else shares_in_ranges(self.measured.record)

    @cached_property
    def _unprofiled_ns(self) -> list[float]:
        """Times of the steps that the capture took without the profiler."""
        return unprofiled_ns(self.measured.record)

    @property
    def _is_calibrated(self) -> bool:
        return bool(self._unprofiled_ns) or not self.measured.timeline.has_gpu

    def cured(self, rule: Rule) -> tuple[Rule, ...]:
        """The rule, and the other fired rules with exactly the same change and the same kind of `[whatif]`.

        The one of them that gains most by itself represents the change, so that its gain counts once; each of the
        others represents its own part.
        """
        if rule.id not in self._cured:
            self._cured[rule.id] = self._cured_with(rule)
        return self._cured[rule.id]

    def evidence(self, rule: Rule) -> tuple[Evidence, ...]:
        """The evidence of all that the rule's change cures."""
        if rule.id not in self._evidence:
            self._evidence[rule.id] = evidence_of(self.cured(rule), self.facts)
        return self._evidence[rule.id]

    def _cured_with(self, rule: Rule) -> tuple[Rule, ...]:
        patch, replayed = rule.patch_for(self.facts), rule.remedy is not None and rule.remedy.replayed
        alike = [
            other
            for other in self.fired
            if other.id != rule.id and other.remedy and other.remedy.replayed == replayed
            if patch and other.patch_for(self.facts) == patch
        ]
        first = min((rule, *alike), key=lambda each: (self._alone_ns(each), each.id)) if alike else rule
        return (rule, *alike) if first is rule else (rule,)

    def _booked_ns(self, changed: ChangedStep) -> float:
        """Nanoseconds of a step that the breakdown books on what the change shortens, at the unprofiled speed."""
        if not self.measured.timeline.has_gpu:
            return max(self._time(NOTHING) - self._time(without_what_it_shortens(changed)), 0.0)
        booked = booked_on(self.measured, changed.change)
        return self.measured.timeline.steps.each(booked.unprofiled_ns(self.host_speeds))

    def _alone_ns(self, rule: Rule) -> float:
        """The step with the rule's own remedy alone, in its worst case."""
        changed = self._remedies.changed(rule.remedy, "worst")
        return np.inf if changed is None else self._time(changed)

    def _time(self, changed: ChangedStep, host_speeds: HostSpeeds | None = None) -> float:
        """Nanoseconds for the tokens of one step of now, at the host's unprofiled speed unless another is given."""
        speeds = self.host_speeds if host_speeds is None else host_speeds
        return float(self.replay.step_ns(replace(changed.change, host_speeds=speeds))) / changed.gain

    def _all(self, rules: Sequence[Rule], case: Case) -> tuple[ChangedStep, float] | None:
        """The changes of the rules together, and the time of a step with them."""
        key = case, tuple(rule.id for rule in rules)
        if key not in self._before:
            each = [self._own(rule, case) for rule in rules]
            known = [changed for changed in each if changed is not None]
            together = reduce(combined, known, NOTHING)
            known_all = len(known) == len(each)
            self._before[key] = (together, self._time(together, self._speeds(case))) if known_all else None
        return self._before[key]

    def _own(self, rule: Rule, case: Case) -> ChangedStep | None:
        """The effect of the rule's change, also on other faults that it cures; None if the rule's own is unknown."""
        changed = self._remedies.changed(rule.remedy, case)
        for other in self.cured(rule)[1:]:
            more = self._remedies.changed(other.remedy, case)
            changed = changed if changed is None or more is None else joined(changed, more)
        return changed

    def _drawn_ns(self, changed: ChangedStep) -> Floats | None:
        return self.replay.drawn_ns(replace(changed.change, host_speeds=self.host_speeds))
