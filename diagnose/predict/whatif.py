"""Predictions: the remedies of rules put into the replay of the step."""

from collections.abc import Iterable, Sequence
from functools import cached_property, reduce

import numpy as np

from diagnose.attribution.causes import EXPOSED, OPERATORS, WAITING
from diagnose.diagnosis import Speedup
from diagnose.facts import Unknown, spoken
from diagnose.formulas.statistics import ENDS
from diagnose.metrics.run.usual import usual_step_ns
from diagnose.predict.changed import NOTHING, ChangedStep, SavedShares, combined
from diagnose.predict.changed_steps import ChangedSteps
from diagnose.predict.cold import warm_factor
from diagnose.predict.crowded import FREED, TOO_BUSY, is_too_busy, on_crowded_host
from diagnose.predict.earned import (
    NO_END,
    REPLAY_ERROR,
    Earned,
    evidence_share,
    is_resolved,
    most_by,
    resolved,
    share_of,
)
from diagnose.predict.real_gains import DeviceKind, likely, usual
from diagnose.predict.replay import HostSpeeds, StepChange
from diagnose.predict.spread import FEW_STEPS, spread
from diagnose.predict.usual_steps import of_run, over_run, told
from diagnose.rule import Rule
from diagnose.rule.remedy import Case

WORTH_TELLING = 1.02
WAITS_FOR_WORKERS = 0.10  # of the step: below, taking a finished batch from a worker is most of it
WORST: Case = "worst"
BEST: Case = "best"
HIDDEN_BY_HOST = (
    "no gain is predicted: the host would hide it at its profiled speed, counting time that the trace does not show; "
    "its unprofiled speed is unknown"
)
COLD = "at best the rest of the step takes up to 1 ms less: its caches are cold behind what goes"
PROFILED_HOST = "the host's time is as profiled, and less without the profiler"


class Predictor(ChangedSteps):
    """Predict the effect of remedies on one rank's step."""

    @cached_property
    def _may_be_waiting(self) -> bool:
        """Whether the transfer part of the collectives is unknown: faster transfer does not help against late ranks."""
        fact = self.facts.get("waiting_share")
        return fact is not None and not fact.known

    def _without_transfer(self, rules: Sequence[Rule], after: Sequence[Rule]) -> float:
        """The speed of a step that waits for ranks and transfers nothing: an upper bound for changes of transfers.

        It is that of the step with all other changes of `rules`, from which transfers go once. Fewer collectives also
        free the cores of a host that sends for its operators.
        """
        bound = [rule for rule in rules if _is_of_transfers(rule)]
        others = [rule for rule in rules if not _is_of_transfers(rule)]
        before, now = self._all(after, BEST), self._all((*after, *others), BEST)
        known = [ns for ns in map(self._transfer_ns, bound) if ns is not None]
        if not bound or len(known) < len(bound) or before is None or now is None or before[1] <= 0:
            return np.inf
        gone = max(known) + sum(self._given_back_ns(rule, now) for rule in bound)
        return before[1] / max(now[1] - gone, 1e-3 * before[1])

    def _transfer_ns(self, rule: Rule) -> float | None:
        """Nanoseconds of a step in which it transfers; fewer collectives are also fewer places to wait for ranks."""
        fewer = rule.remedy is not None and not {*WAITING}.isdisjoint(rule.remedy.host)
        waiting = self._share("passing_waiting_share", "waiting_share") if fewer else 0.0
        transfer = self._share("transfer_share")
        if transfer is None or waiting is None:
            return None
        speed = 1.0 if self.measured.timeline.has_gpu else self.host_speeds.of(EXPOSED)
        return (transfer + waiting) * self.replay.measured_ns * speed

    def _given_back_ns(self, rule: Rule, now: tuple[ChangedStep, float]) -> float:
        """Nanoseconds of a step of `now` that the change saves by host operators in its best case."""
        own = self._own(rule, BEST)
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
        change touches, and at most what the evidence shows; it is below 1 if the step is slower in the worst case.
        High is the best case: the step over the work that remains of it. It is None if a fact that it needs is unknown,
        or if what remains is less than the error of the replay.
        """
        if rule.remedy is None or self._is_too_busy(rule) or (rule.remedy.replayed and not self.replay.valid):
            return None
        best = self._gain((rule,), after, BEST)
        return None if best is not None and self._is_hidden(rule, after, best) else self._range((rule,), after)

    def _is_too_busy(self, rule: Rule) -> bool:
        """Whether the host is too busy to predict the change, unless the change is to free it."""
        return rule.class_ != "validity" and is_too_busy(self.facts)

    def together(self, rules: Sequence[Rule]) -> Speedup | None:
        """[low, high] of all the changes, replayed as one; None if a part of them is not replayed.

        Gains are not multiplied: two changes may be about the same time, which goes once.
        """
        if len(rules) == 1:
            return self.predict(rules[0])
        if is_too_busy(self.facts) or not (self.replay.valid and all(map(self._is_all_replayed, rules))):
            return None
        return of_run(self._range(rules, ()), self.facts)

    def _is_all_replayed(self, rule: Rule) -> bool:
        """Whether nothing of the change is a share that the replay does not show."""
        if rule.remedy is None or not rule.remedy.replayed or rule.remedy.over == "run":
            return False
        factors = [cured.remedy.factors(self.facts, BEST) for cured in self.cured(rule) if cured.remedy]
        return all(each is not None and each.removed == 0 for each in factors)

    def _range(self, rules: Sequence[Rule], after: Sequence[Rule]) -> Speedup | None:
        """The gain of the rules' changes together, on top of those of `after`."""
        worst, best = self._gain(rules, after, WORST), self._gain(rules, after, BEST)
        if worst is None or worst == np.inf:
            return None
        if best is None or best == np.inf:
            low = self._ends(worst, rules, after, WORST)[0]
            return (low, None) if low > 1 else None
        best = self._with_what_no_replay_sees(best, rules)
        (low, at_low), (high, at_high) = sorted([(worst, WORST), (best, BEST)])
        most = self._without_transfer(rules, after)
        low, high = min(low, most), min(high, most)
        least = 0.0 if low * (1 + REPLAY_ERROR) < 1 else 1.0
        low = max(self._ends(low, rules, after, at_low)[0], least)
        evident = 1.0 if after else self._evident(rules)
        high = max(high, min(self._ends(high, rules, after, at_high)[1], evident, most), 1.0)
        return resolved((low if self._is_exact(rules) else max(min(low, high / (1 + REPLAY_ERROR)), least), high))

    def _with_what_no_replay_sees(self, best: float, rules: Sequence[Rule]) -> float:
        """The best case on a host without a GPU. Threads that send share caches and memory with those that compute:
        fewer collectives save as much more as the error of the replay. What follows a wait or other code finds its
        caches cold.
        """
        if self.measured.timeline.has_gpu:
            return best
        sends = any(rule.remedy and rule.remedy.collectives for rule in rules)
        return self._warm(most_by(share_of(best) + REPLAY_ERROR) if sends else best, rules)

    def _warm(self, best: float, rules: Iterable[Rule]) -> float:
        """The best case with warm caches; without, where a replay resolves no more."""
        if self.measured.timeline.has_gpu or not any(rule.remedy and rule.remedy.warms for rule in rules):
            return best
        step_s = usual_step_ns(self.measured) / 1e9
        warm = best / warm_factor(step_s / best, step_s - step_s / best)
        return warm if is_resolved(warm) else best

    def _evident(self, rules: Sequence[Rule]) -> float:
        """The gain if all goes that the evidence shows and the change shortens: the most for other steps.

        It is 1 for several changes. Of the evidence the largest share counts: others may be of the same time.
        """
        own = self._own(rules[0], BEST)
        if len(rules) > 1 or own is None or own.gain != 1 or not (rules[0].remedy and rules[0].remedy.replayed):
            return 1.0
        each = (evidence_share((shown,)) for shown in self.evidence(rules[0]))
        return most_by(min(max(each, default=0.0), self._booked_ns(own) / self._time(NOTHING)))

    def _ends(self, gain: float, rules: Sequence[Rule], after: Sequence[Rule], case: Case) -> tuple[float, float]:
        """The ends between which the gain of one case lies, as far as the steps show."""
        drawn = self._drawn(rules, after, case)
        low, high = gain * drawn[0], gain * drawn[1]
        if self._steps_behind(rules) > FEW_STEPS or any(rule.remedy and rule.remedy.over == "run" for rule in rules):
            return low, high
        less, more = spread(gain)
        return min(low, less), max(high, more)

    def _steps_behind(self, rules: Sequence[Rule]) -> int:
        """The number of steps that the changes' gain is computed from.

        Steps without the profiler count if their ranges time all that the changes make shorter or longer.
        """
        windows, timed = len(self.measured.attribution.windows), {c for causes in self._ranges for c in causes}
        own = [self._own(rule, BEST) for rule in rules if rule.remedy and rule.remedy.replayed]
        causes = [_touched(each) if each else {""} for each in own]
        is_timed = len(own) == len(rules) and all(each and each <= timed for each in causes)
        return max(windows, len(self._unprofiled_ns)) if is_timed else windows

    def saving(self, rule: Rule) -> SavedShares | None:
        """The sources of the time that the rule's change saves in its best case; None if nothing is replayed.

        Without a GPU the replay is the breakdown, and nothing passes beside other work.
        """
        if not (rule.remedy and rule.remedy.replayed and self.replay.valid):
            return None
        before, after = self._all((), BEST), self._all((rule,), BEST)
        if before is None or after is None or after[0].gain != 1 or before[1] <= 0:
            return None
        booked = min(self._booked_ns(after[0]) / before[1], 1.0)
        return SavedShares(booked, max(1 - after[1] / before[1] - booked, 0.0))

    def earned(self, rule: Rule) -> Earned | None:
        """The shares of the step on which the high end rests; None if there is none."""
        gain = self.predict(rule)
        if gain is None or gain[1] is None:
            return None
        return Earned(evidence_share(self.evidence(rule)), max(share_of(gain[1]), 0.0))

    def _is_hidden(self, rule: Rule, after: Sequence[Rule], best: float) -> bool:
        """Whether faster kernels or transfers gain nothing only because the profiler makes the host slow."""
        on_device = rule.remedy and (rule.remedy.kernels or rule.remedy.communication or rule.remedy.collectives)
        if self._is_calibrated or best >= WORTH_TELLING or not on_device:
            return False
        now, then = self._device_ns(after), self._device_ns((*after, rule))
        return now is not None and then is not None and now >= WORTH_TELLING * then

    def _device_ns(self, rules: Sequence[Rule]) -> float | None:
        """The step with the changes of the rules in the best case, were the host infinitely fast."""
        together = self._all(rules, BEST)
        return None if together is None else self._time(together[0], HostSpeeds(0.0))

    def likely(self, rule: Rule, gain: Speedup | None) -> float | None:
        """The likely value of the gain; None of a bound, which nothing is assumed for."""
        return likely(gain, self._device) if _assumes(rule) else None

    def usual(self, rule: Rule, gain: Speedup | None) -> Speedup | None:
        """Where eight in ten such gains lie; None of a bound."""
        return usual(gain, self._device) if _assumes(rule) else None

    @property
    def _device(self) -> DeviceKind:
        return "gpu" if self.measured.timeline.has_gpu else "cpu"

    def assumes(self, rule: Rule) -> str:
        """The assumptions of the prediction."""
        remedies = [cured.remedy for cured in self.cured(rule) if cured.remedy]
        each = [remedy.assumes for remedy in remedies]
        if any(remedy.host or remedy.launches or remedy.collectives for remedy in remedies) and not self._is_calibrated:
            each.append(PROFILED_HOST)
        of_host = FREED if rule.class_ == "validity" else on_crowded_host(self.facts)
        each += [told(rule.remedy, self.facts), of_host, self.withheld(rule)]
        each += [self._warmed(rule), self._beyond_evidence(rule), self._without_end(rule)]
        if (saving := self.saving(rule)) and saving.hidden > REPLAY_ERROR:
            booked, hidden = spoken(saving.booked, "share"), spoken(saving.hidden, "share")
            each.append(
                f"the ledger books {booked} of the step on what this changes, and the low end promises no more; the "
                f"high end saves {hidden} beyond that: work that runs beside other work and still holds up the step"
            )
        return "; ".join(dict.fromkeys(text for text in each if text))

    def withheld(self, rule: Rule) -> str:
        """The reason why no gain is given for a change that is replayed, "" if there is none."""
        best = self._gain((rule,), (), BEST)
        hidden = HIDDEN_BY_HOST if best is not None and self._is_hidden(rule, (), best) else ""
        return TOO_BUSY if rule.remedy and self._is_too_busy(rule) else hidden

    def _warmed(self, rule: Rule) -> str:
        """A sentence on caches, if they count; "" else."""
        best = self._gain((rule,), (), BEST)
        return COLD if best is not None and self._warm(best, (rule,)) > best else ""

    def _beyond_evidence(self, rule: Rule) -> str:
        """A sentence on what the high end rests on beyond the finding's evidence; "" if it rests on no more."""
        if rule.remedy is not None and rule.remedy.batch is not None:
            how = "a larger batch counts, too"
        elif self.measured.timeline.has_gpu:
            how = "it counts all that the change touches, and the idle time before it"
        elif self._unprofiled_ns:
            how = "a step without the profiler has more of it"
        else:
            how = "it counts all that the change touches"
        earned = self.earned(rule)
        return earned.named(how) if earned else ""

    def _without_end(self, rule: Rule) -> str:
        best = self._gain((rule,), (), BEST)
        return "" if best is None or is_resolved(best) else NO_END

    def _is_exact(self, rules: Iterable[Rule]) -> bool:
        """Whether best and worst case have the same factors, and these describe what becomes of the work."""
        if any(rule.remedy is None or not rule.remedy.replayed for rule in rules):
            return False
        remedies = [cured.remedy for rule in rules for cured in self.cured(rule) if cured.remedy]
        return all(each.factors(self.facts, BEST) == each.factors(self.facts, WORST) for each in remedies)

    def _gain(self, rules: Sequence[Rule], after: Sequence[Rule], case: Case) -> float | None:
        """How many times as fast the step of `after` is with the rules' changes; None if a fact is unknown."""
        before, own = self._all(after, case), [self._own(rule, case) for rule in rules]
        known = [changed for changed in own if changed is not None]
        if before is None or len(known) < len(own):
            return None
        if case == WORST and (idle := [rule for rule in rules if self._may_only_shift_time(rule, (*after, *rules))]):
            at_work = [rule for rule in rules if rule not in idle]
            return self._gain(at_work, after, case) if at_work else 1.0
        alone = reduce(combined, known)
        if not any(rule.remedy and rule.remedy.replayed for rule in rules):
            return alone.gain
        together = self._all((*after, *rules), case)
        assert together is not None
        now, then = before[1], together[1]
        if case == WORST and alone.gain == 1:
            then = max(then, now - min(self._booked_ns(alone), self._shown_ns(rules)))
        return now / then if then > 0 else np.inf

    def _shown_ns(self, rules: Sequence[Rule]) -> float:
        """Nanoseconds of a step that the evidence of the rules shows; infinite if that of one shows no time."""
        shares = [evidence_share(self.evidence(rule)) for rule in rules]
        return sum(shares) * self._time(NOTHING) if all(shares) else np.inf

    def _may_only_shift_time(self, rule: Rule, others: Iterable[Rule]) -> bool:
        """Whether all that the change saves may become waiting, for ranks or for the workers that load batches."""
        if rule.class_ == "communication" and self._may_be_waiting:
            return True
        return self._waits_for_workers and not any(each.class_ == "data" for each in others)

    def _drawn(self, rules: Sequence[Rule], after: Sequence[Rule], case: Case) -> tuple[float, float]:
        """Factors on the gain, low and high, that nine in ten resampled draws of the same steps stay within.

        Both are 1 if nothing is replayed or drawn.
        """
        if not (self.replay.draws and any(rule.remedy and rule.remedy.replayed for rule in rules)):
            return 1.0, 1.0
        before, together = self._all(after, case), self._all((*after, *rules), case)
        if before is None or together is None:
            return 1.0, 1.0
        now, then = self._drawn_ns(before[0]), self._drawn_ns(together[0])
        if now is None or then is None or together[1] <= 0 or not then.min() > 0:
            return 1.0, 1.0
        gain = before[1] * before[0].gain / (together[1] * together[0].gain)  # of the steps, the tokens left out
        low, high = np.quantile(now / then / gain, ENDS).tolist()
        return min(low, 1.0), max(high, 1.0)


def _touched(changed: ChangedStep) -> set[str]:
    return {cause for cause, factor in changed.change.host.items() if factor != 1}


def _assumes(rule: Rule) -> bool:
    return rule.remedy is not None and bool(rule.remedy.assumes)


def _is_of_transfers(rule: Rule) -> bool:
    """Whether the rule's change saves no more than transfers."""
    remedy = rule.remedy
    return rule.class_ == "communication" and remedy is not None and not (remedy.beyond_transfers or remedy.collectives)
