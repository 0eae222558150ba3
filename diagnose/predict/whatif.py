"""Predictions: the remedies of rules put into the replay of the step."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, reduce

import numpy as np

from diagnose.arrays import Floats
from diagnose.attribution.causes import EXPOSED, OPERATORS, WAITING
from diagnose.diagnosis import Speedup
from diagnose.errors.defects import netted
from diagnose.facts import Facts, Unknown, spoken
from diagnose.formulas.statistics import ENDS
from diagnose.metrics import Measured
from diagnose.predict.booked import booked_on
from diagnose.predict.changed import NOTHING, ChangedStep, SavedShares, combined, joined
from diagnose.predict.crowded import TOO_BUSY, is_too_busy, on_core_part, on_crowded_host
from diagnose.predict.remedies import Remedies
from diagnose.predict.replay import (
    AS_PROFILED,
    HostSpeeds,
    Replay,
    StepChange,
    host_speeds_for,
    likely_host_speeds_for,
)
from diagnose.predict.usual_steps import over_run, told
from diagnose.rule import Rule
from diagnose.rule.remedy import Case
from diagnose.trace.distortion import distorted_by
from diagnose.trace.light_steps import shares_in_ranges
from diagnose.trace.record import unprofiled_ns

REPLAY_ERROR = 0.02  # how near the replay of a trace comes to that of the same job with the change
WORTH_TELLING = 1.02
WAITS_FOR_WORKERS = 0.10  # of the step: below, taking a finished batch from a worker is most of it
WORST: Case = "worst"
BEST: Case = "best"
HIDDEN_BY_HOST = (
    "no gain is predicted: the host would hide it at its profiled speed, counting time that the trace does not show; "
    "its unprofiled speed is unknown"
)
PROFILED_HOST = "the host's time is as profiled, and less without the profiler"


class Predictor:
    """Predict the effect of remedies on one rank's step.

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
        """Factors on host time from the profiled to the unprofiled speed; 1 without unprofiled steps."""
        control = self._unprofiled_ns
        if not control:
            return AS_PROFILED
        step_ns = float(np.median(control))
        return host_speeds_for(self.replay, step_ns, self._told_ns(step_ns))

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
        if self.measured.timeline.has_gpu:
            return {}  # what the host does there may pass beside kernels
        told: dict[str, float] = {}
        for causes, share in shares_in_ranges(self.measured.record).items():
            profiled = {c: self.replay.recorded[c].ns for c in causes if c in self.replay.recorded}
            part_ns = step_ns * share * (1 if causes == ("data-wait",) else on_core_part(self.replay.recorded))
            told |= {c: part_ns * ns / sum(profiled.values()) for c, ns in profiled.items()}
        return told

    @cached_property
    def _unprofiled_ns(self) -> list[float]:
        """Times of the steps that the capture took without the profiler."""
        return unprofiled_ns(self.measured.record)

    @cached_property
    def _may_be_waiting(self) -> bool:
        """Whether the transfer part of the collectives is unknown: faster transfer does not help against late ranks."""
        fact = self.facts.get("waiting_share")
        return fact is not None and not fact.known

    def _without_transfer(self, rule: Rule, after: Sequence[Rule]) -> float:
        """The speed of a step that waits for ranks and transfers nothing: an upper bound for changes of transfers.

        Fewer collectives also mean fewer places at which ranks wait for each other, and free the cores of a host that
        sends for its operators.
        """
        fewer, now = rule.remedy is not None and not {*WAITING}.isdisjoint(rule.remedy.host), self._all(after, "best")
        waiting = self._share("passing_waiting_share", "waiting_share") if fewer else 0.0
        transfer = self._share("transfer_share")
        if transfer is None or waiting is None or now is None:
            return np.inf
        speed = 1.0 if self.measured.timeline.has_gpu else self.host_speeds.of(EXPOSED)
        gone = (transfer + waiting) * self.replay.measured_ns * speed + self._given_back_ns(rule, now)
        return now[1] / max(now[1] - gone, 1e-3 * now[1]) if now[1] > 0 else np.inf

    def _given_back_ns(self, rule: Rule, now: tuple[ChangedStep, float]) -> float:
        """Nanoseconds of a step of `now` that the change saves by host operators in its best case."""
        own = self._own(rule, "best")
        factors = {} if own is None else {cause: own.change.host.get(cause, 1.0) for cause in OPERATORS}
        back = combined(now[0], ChangedStep(StepChange(host=factors)))
        return max(now[1] - self._time(back), 0.0) if factors else 0.0

    def _share(self, *names: str) -> float | None:
        """The first of the shares that is known; None if none is."""
        found = (self.facts.get(name) for name in names)
        known = (fact.value for fact in found if fact is not None and not isinstance(fact.value, Unknown))
        return next((float(value) for value in known), None)

    @cached_property
    def _waits_for_workers(self) -> bool:
        """Whether loader workers set the pace: time that other changes save may become waiting for the next batch."""
        workers, wait = self.facts.get("loader_workers"), self.facts.get("data_wait_share")
        if workers is None or wait is None or isinstance(wait.value, Unknown):
            return False
        return workers.value == "some" and float(wait.value) > WAITS_FOR_WORKERS

    @over_run
    def predict(self, rule: Rule, after: Sequence[Rule] = ()) -> Speedup | None:
        """[low, high] of the speed of step or run by the remedy when those of `after` are in place; None if unknown.

        The change cures all of `cured(rule)`. Low saves at most the time that the breakdown attributes to what the
        change touches, and is below 1 if the step is slower in the worst case. High is the best case, None if a fact
        that it needs is unknown or nothing of the step is left.
        """
        if rule.remedy is None or is_too_busy(self.facts) or (rule.remedy.replayed and not self.replay.valid):
            return None
        worst, best = (self._gain(rule, after, case) for case in ("worst", "best"))
        if worst is None or worst == np.inf or (best is not None and self._is_hidden(rule, after, best)):
            return None
        if best is None or best == np.inf:
            low = worst * self._drawn(rule, after, WORST)[0]
            return (low, None) if low > 1 else None
        (low, at_low), (high, at_high) = sorted([(worst, WORST), (best, BEST)])
        if rule.class_ == "communication" and not rule.remedy.beyond_transfers:
            most = self._without_transfer(rule, after)
            low, high = min(low, most), min(high, most)
        least = 0.0 if low * (1 + REPLAY_ERROR) < 1 else 1.0
        low = max(low * self._drawn(rule, after, at_low)[0], least)
        high = max(high * self._drawn(rule, after, at_high)[1], 1.0)
        return (low if self._is_exact(rule) else max(min(low, high / (1 + REPLAY_ERROR)), least)), high

    def saving(self, rule: Rule) -> SavedShares | None:
        """The sources of the time that the rule's change saves in its best case; None if nothing is replayed."""
        if not (rule.remedy and rule.remedy.replayed and self.replay.valid and self.measured.timeline.has_gpu):
            return None  # without a GPU the replay is the breakdown, and nothing passes beside other work
        before, after = self._all((), "best"), self._all((rule,), "best")
        if before is None or after is None or after[0].gain != 1 or before[1] <= 0:
            return None
        booked = min(self._booked_ns(after[0]) / before[1], 1.0)
        return SavedShares(booked, max(1 - after[1] / before[1] - booked, 0.0))

    def cured(self, rule: Rule) -> tuple[Rule, ...]:
        """The rule, and the other fired rules with exactly the same change and the same kind of `[whatif]`.

        The one of them that gains most by itself represents the change, so that its gain counts once; each of the
        others represents its own part.
        """
        if rule.id not in self._cured:
            self._cured[rule.id] = self._cured_with(rule)
        return self._cured[rule.id]

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

    def _is_hidden(self, rule: Rule, after: Sequence[Rule], best: float) -> bool:
        """Whether faster kernels or transfers gain nothing only because the profiler makes the host slow."""
        on_device = rule.remedy and (rule.remedy.kernels or rule.remedy.communication)
        if self._is_calibrated or best >= WORTH_TELLING or not on_device:
            return False
        now, then = self._device_ns(after), self._device_ns((*after, rule))
        return now is not None and then is not None and now >= WORTH_TELLING * then

    def _device_ns(self, rules: Sequence[Rule]) -> float | None:
        """The step with the changes of the rules in the best case, were the host infinitely fast."""
        together = self._all(rules, "best")
        return None if together is None else self._time(together[0], HostSpeeds(0.0))

    def assumes(self, rule: Rule) -> str:
        """The assumptions of the prediction."""
        remedies = [cured.remedy for cured in self.cured(rule) if cured.remedy]
        each = [remedy.assumes for remedy in remedies]
        if any(remedy.host or remedy.launches for remedy in remedies) and not self._is_calibrated:
            each.append(PROFILED_HOST)
        each += [told(rule.remedy, self.facts), on_crowded_host(self.facts), self.withheld(rule)]
        if (saving := self.saving(rule)) and saving.hidden > REPLAY_ERROR:
            booked, hidden = spoken(saving.booked, "share"), spoken(saving.hidden, "share")
            each.append(
                f"the ledger books {booked} of the step on what this changes, and the low end promises no more; the "
                f"high end saves {hidden} beyond that: work that runs beside other work and still holds up the step"
            )
        return "; ".join(dict.fromkeys(text for text in each if text))

    def withheld(self, rule: Rule) -> str:
        """The reason why no gain is given for a change that is replayed, "" if there is none."""
        best = self._gain(rule, (), "best")
        hidden = HIDDEN_BY_HOST if best is not None and self._is_hidden(rule, (), best) else ""
        return TOO_BUSY if rule.remedy and is_too_busy(self.facts) else hidden

    @property
    def _is_calibrated(self) -> bool:
        return bool(self._unprofiled_ns) or not self.measured.timeline.has_gpu

    def _is_exact(self, rule: Rule) -> bool:
        """Whether best and worst case have the same factors, and these describe what becomes of the work."""
        if rule.remedy is None or not rule.remedy.replayed:
            return False
        remedies = [cured.remedy for cured in self.cured(rule) if cured.remedy]
        return all(each.factors(self.facts, "best") == each.factors(self.facts, "worst") for each in remedies)

    def _gain(self, rule: Rule, after: Sequence[Rule], case: Case) -> float | None:
        before, alone = self._all(after, case), self._own(rule, case)
        if before is None or alone is None:
            return None
        if case == "worst" and rule.class_ == "communication" and self._may_be_waiting:
            return 1.0
        if case == "worst" and self._waits_for_workers and not any(each.class_ == "data" for each in (*after, rule)):
            return 1.0
        if not (rule.remedy and rule.remedy.replayed):
            return alone.gain
        together = self._all((*after, rule), case)
        assert together is not None
        now, then = before[1], together[1]
        if case == "worst" and alone.gain == 1:
            then = max(then, now - self._booked_ns(alone))
        return now / then if then > 0 else np.inf

    def _drawn(self, rule: Rule, after: Sequence[Rule], case: Case) -> tuple[float, float]:
        """Factors on the gain, low and high, that nine in ten resampled draws of the same steps stay within.

        Both are 1 if nothing is replayed or drawn.
        """
        if not (rule.remedy and rule.remedy.replayed and self.replay.draws):
            return 1.0, 1.0
        before, together = self._all(after, case), self._all((*after, rule), case)
        if before is None or together is None:
            return 1.0, 1.0
        now, then = self._drawn_ns(before[0]), self._drawn_ns(together[0])
        if now is None or then is None or together[1] <= 0 or not then.min() > 0:
            return 1.0, 1.0
        gain = before[1] * before[0].gain / (together[1] * together[0].gain)  # of the steps, the tokens left out
        low, high = np.quantile(now / then / gain, ENDS).tolist()
        return min(low, 1.0), max(high, 1.0)

    def _drawn_ns(self, changed: ChangedStep) -> Floats | None:
        return self.replay.drawn_ns(replace(changed.change, host_speeds=self.host_speeds))

    def _booked_ns(self, changed: ChangedStep) -> float:
        """Nanoseconds of a step that the breakdown books on what the change touches, at the unprofiled speed."""
        if not self.measured.timeline.has_gpu:
            return np.inf  # there the replay is the breakdown
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
