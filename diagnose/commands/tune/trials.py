"""The climb: measure, try the next change, keep it if it helps, until nothing is left to try."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from diagnose.commands.ledger.keeping import record
from diagnose.commands.ledger.prediction import prediction_of_patch
from diagnose.commands.tune.answer import DONE, LeftToUser, Rung, Settings, Tuning
from diagnose.commands.tune.evidence import held_against
from diagnose.commands.tune.judging import again_rung, failed_rung, first_rung, held_rung, judged_rung, settled_rung
from diagnose.commands.tune.proposals import Proposal, apart_share, is_small, next_proposal, why_not
from diagnose.commands.tune.running import EndedRun, Run
from diagnose.commands.tune.settings import keys_of, merged
from diagnose.commands.tune.state import TuneFolder
from diagnose.diagnosis import Diagnosis, Patch
from diagnose.diagnosis.terms import Estimate, expected_range
from diagnose.errors import UserError
from diagnose.patch.expected import expected_of
from diagnose.patch.patches import python_lines

RUNS_AT_MOST = 12
_LONGEST_FACTOR = 10.0  # of the first run: a run that takes longer hangs
_LEAST_PATIENCE_S = 300.0
_REPEATS = 2
NOT_HELD = "the best run, made again beside the first, was not faster"


@dataclass(frozen=True)
class TuneLimits:
    """Limits of the climb.

    Attributes:
        runs: at most, the first included, over all sittings.
        budget_s: seconds of all runs together; None for no end.
        run_s: seconds of one run, which is ended then; None for ten times the first, which may take the whole budget.
        allow_numerics: whether changes may alter what training computes.
        noise_share: how far repeats of a run lie apart; None for the usual distance.
        repeats: whether the first and the best run are made again at the end, one after the other: a machine that got
            faster meanwhile is no gain.
        records_predictions: whether predictions and their results are kept in the ledger.
    """

    runs: int = RUNS_AT_MOST
    budget_s: float | None = None
    run_s: float | None = None
    allow_numerics: bool = False
    noise_share: float | None = None
    repeats: bool = True
    records_predictions: bool = True


class Interrupted(Exception):
    """The user ended a run; those before it are kept."""


class Trials:
    """The climb of one job.

    Args:
        folder: holds the runs so far.
        command: as the user typed it.
        run: runs the job.
        limits: of the climb.
        tell: called with every run as soon as it is written.
    """

    def __init__(
        self, folder: TuneFolder, command: Sequence[str], run: Run, limits: TuneLimits, tell: Callable[[Rung], None]
    ) -> None:
        self._folder, self._run, self._limits, self._tell = folder, run, limits, tell
        self.tuning = folder.read() or Tuning(command=tuple(command))

    def climb(self) -> Tuning:
        """Go on after the folder's last run, until nothing is left or a limit is reached.

        Raises:
            Interrupted: the user ended a run.
            UserError: the job as it is cannot be measured.
            OSError: it cannot be executed.
        """
        if not self.tuning.rungs:
            self._first()
        why_ended = self._not_held()
        while not why_ended:
            best = self._best()
            if unclear := self._unclear():
                self._settle(unclear, best)
                continue
            proposal = next_proposal(best, self.tuning.rungs, self._limits.allow_numerics, self._limits.noise_share)
            why_ended = DONE if proposal is None else self._spent()
            if proposal is None or why_ended:
                continue
            if self._noise_is_asked(proposal, best):
                self._again(self.tuning.best or self.tuning.rungs[0])
                continue
            self._try(proposal, best)
        self._repeat()
        return self._ended(self._not_held() or why_ended)

    def _first(self) -> None:
        ran = self._ran(0, {})
        if ran.diagnosis is None:
            raise UserError(
                "the job as it is cannot be measured", where=self._folder.path / "run-0.log", why=ran.because,
                do="make it run by itself first; it has to train long enough for the window (--steps, --at-step)",
            )  # fmt: skip
        file = self._folder.keep(0, ran.diagnosis)
        self._add(first_rung(ran, ran.diagnosis, file))

    def _try(self, proposal: Proposal, best: Diagnosis) -> None:
        number, standing = len(self.tuning.rungs), self.tuning.best
        settings = merged(standing.settings if standing else {}, proposal.settings)
        expected = _expected(best, proposal.rule) if proposal.predicted is not None else None
        ran = self._ran(number, settings, expected)
        if ran.diagnosis is None:
            self._add(failed_rung(number, proposal, settings, ran))
            return
        first = self._folder.diagnosis(self.tuning.rungs[0].diagnosis)
        runs = first, best, ran.diagnosis
        may_repeat = not self._no_room(1 + 2 * _REPEATS)
        rung = judged_rung(number, proposal, settings, ran, runs, self._limits.noise_share, may_repeat)
        self._judged(rung, ran)

    def _noise_is_asked(self, proposal: Proposal, best: Diagnosis) -> bool:
        """Whether to compare equal runs before a small gain is tried.

        It is if their distance was not stated, no run was repeated, and there is room for the change afterwards.
        """
        known = self._limits.noise_share is not None or any(rung.repeats is not None for rung in self.tuning.rungs)
        repeats = 2 + 2 * _REPEATS  # the one now, the change, a second pair of it, and the last two
        return not known and is_small(best, proposal) and not self._no_room(repeats)

    def _unclear(self) -> Rung | None:
        """A change whose gain the noise hides: the run that made it first."""
        rungs = self.tuning.rungs
        last = next((rung for rung in reversed(rungs) if rung.rule), None)
        if last is None or last.decision != "unclear":
            return None
        return last if last.repeats is None else rungs[last.repeats]

    def _settle(self, unclear: Rung, best: Diagnosis) -> None:
        """Make the best run and the unclear one again, one after the other."""
        rungs, standing = self.tuning.rungs, self.tuning.best or self.tuning.rungs[0]
        made = [unclear, *(rung for rung in rungs if rung.repeats == unclear.number)]
        since = rungs[made[-1].number + 1 :]
        again = next((rung for rung in since if rung.repeats == standing.number), None) or self._again(standing)
        beside = self._folder.diagnosis(again.diagnosis) if again.diagnosis else best
        number, expected = len(self.tuning.rungs), None
        if unclear.predicted is not None:
            expected = _expected(best, unclear.rule)
        ran = self._ran(number, unclear.settings, expected)
        runs = self._folder.diagnosis(rungs[0].diagnosis), beside
        earlier = [unclear.achieved] if unclear.achieved is not None else []
        earlier += [pair for pair in map(self._pair, made[1:]) if pair is not None]
        room = not self._no_room(1 + 2 * _REPEATS)
        self._judged(settled_rung(number, unclear, ran, runs, earlier, self._limits.noise_share, room), ran)

    def _pair(self, rung: Rung) -> Estimate | None:
        """The speed-up of a run that was made again over the one just before it."""
        before = self.tuning.rungs[rung.number - 1]
        if not (before.diagnosis and rung.diagnosis):
            return None
        runs = self._folder.diagnosis(before.diagnosis), self._folder.diagnosis(rung.diagnosis)
        return held_against(*runs, self._limits.noise_share).speedup

    def _judged(self, rung: Rung, ran: EndedRun) -> None:
        """Keep a run with its diagnosis; also keep the result of its prediction if nothing can change it any more."""
        if ran.diagnosis is None:
            self._add(rung)
            return
        file = self._folder.keep(rung.number, ran.diagnosis)
        rung = replace(rung, diagnosis=file)
        if rung.decision not in ("refused", "unclear", "kept"):
            self._put_to_the_test(rung)
        self._add(rung)

    def _put_to_the_test(self, rung: Rung) -> None:
        """Record the result of a run's prediction in the ledger, once."""
        if self._limits.records_predictions and rung.diagnosis:
            diagnosis = self._folder.diagnosis(rung.diagnosis)
            record(prediction_of_patch(diagnosis, "tune", rung.achieved, rung.judgement))

    def _ran(self, number: int, settings: Settings, expected: Mapping[str, Any] | None = None) -> EndedRun:
        ran = self._run(number, settings, expected, self._most_s())
        if ran.outcome == "interrupted":
            raise Interrupted
        return ran

    def _repeat(self) -> None:
        """Make the first and the best run again, as long as noise hides which is faster and there is room for both."""
        while self._repeats_due():
            best = self.tuning.best or self.tuning.rungs[0]
            pairs = [rung.achieved for rung in self.tuning.rungs if rung.repeats == best.number]
            earlier = [pair for pair in (best.total, *pairs) if pair is not None]
            first = self._again(self.tuning.rungs[0])
            before = self._folder.diagnosis(first.diagnosis) if first.diagnosis else None
            number = len(self.tuning.rungs)
            ran = self._ran(number, best.settings)
            rung = held_rung(number, best, ran, before, earlier, self._limits.noise_share)
            if rung.decision == "unclear" and self._no_room(1 + _REPEATS):
                rung = replace(rung, decision="not held")
            file = self._folder.keep(number, ran.diagnosis) if ran.diagnosis is not None else ""
            self._add(replace(rung, diagnosis=file))

    def _again(self, rung: Rung) -> Rung:
        number = len(self.tuning.rungs)
        ran = self._ran(number, rung.settings)
        file = self._folder.keep(number, ran.diagnosis) if ran.diagnosis is not None else ""
        repeated = replace(again_rung(number, rung, ran), diagnosis=file)
        self._add(repeated)
        return repeated

    def _repeats_due(self) -> bool:
        best = self.tuning.best
        if not self._limits.repeats or best is None or best.number == 0 or self._no_room(_REPEATS):
            return False
        return self.tuning.repeat_of(best) is None

    def _not_held(self) -> str:
        """Why the first run stands again; "" if it does not, or always stood."""
        best = self.tuning.best
        gone = any(rung.decision == "not held" for rung in self.tuning.rungs)
        return NOT_HELD if gone and best is not None and best.number == 0 else ""

    def _most_s(self) -> float | None:
        """Longest time of a run in seconds; for the first run only the user's limits apply."""
        rungs, limits = self.tuning.rungs, self._limits
        if limits.run_s is not None:
            return limits.run_s
        return max(_LONGEST_FACTOR * rungs[0].seconds, _LEAST_PATIENCE_S) if rungs else limits.budget_s

    def _spent(self) -> str:
        """The limit that leaves no room for a further change and the repeats after it; "" if none does."""
        return self._no_room(1 + (_REPEATS if self._repeats_due() else 0))

    def _no_room(self, runs: int) -> str:
        """The limit that leaves no room for so many further runs; "" if none does."""
        rungs, limits = self.tuning.rungs, self._limits
        if len(rungs) + runs > limits.runs:
            return f"--runs {limits.runs} is reached"
        spent_s, longest_s = sum(rung.seconds for rung in rungs), max(rung.seconds for rung in rungs)
        if limits.budget_s is not None and spent_s + longest_s * runs > limits.budget_s:
            return f"{spent_s:.0f} s of {limits.budget_s:.0f} s are spent, and a run takes up to {longest_s:.0f} s"
        return ""

    def _best(self) -> Diagnosis:
        best = self.tuning.best
        if best is None:
            raise UserError("no usable run is left", where=self._folder.path, do="begin anew with --out")
        return self._folder.diagnosis(best.diagnosis)

    def _add(self, rung: Rung) -> None:
        self.tuning = replace(self.tuning, rungs=(*self.tuning.rungs, rung), why_ended="")
        self._folder.write(self.tuning)
        self._tell(rung)

    def _ended(self, why: str) -> Tuning:
        if not self._not_held():  # else what was kept was a machine that got faster
            for rung in self.tuning.rungs:
                if rung.decision == "kept":
                    self._put_to_the_test(rung)
        best, standing = self._best(), self.tuning.best
        first = self._folder.diagnosis(self.tuning.rungs[0].diagnosis)
        left = left_to_user(first, best, self.tuning.rungs, self._limits.allow_numerics, self._limits.noise_share)
        patch = final_patch(self.tuning.rungs, best) if standing is not None and standing.number else ()
        self.tuning = replace(self.tuning, why_ended=why, left=left, patch=patch)
        self._folder.write(self.tuning)
        return self.tuning


def _expected(best: Diagnosis, rule: str) -> dict[str, Any] | None:
    """The prediction of the best run's diagnosis for a rule's change, as a run with the change records it."""
    return expected_of(msgspec.json.decode(msgspec.json.encode(best)), rule)


# The result of a tune: the kept changes as they are typed, and those that are left to the user.


def final_patch(rungs: Sequence[Rung], best: Diagnosis) -> tuple[str, ...]:
    """The kept changes as they are typed: a setting that was changed twice appears once, with its last value."""
    together: dict[str, Patch] = {}
    for rung in rungs:
        if rung.decision == "kept" and rung.patch is not None:
            patch, known = _made(rung.patch, rung.settings), together.get(rung.patch.target)
            if known is not None:
                install = tuple(dict.fromkeys([*known.install, *patch.install]))
                patch = replace(patch, set={**known.set, **patch.set}, install=install)
            together[patch.target] = patch
    return tuple(line for patch in together.values() for line in python_lines(patch, best.versions))


def _made(patch: Patch, settings: Settings) -> Patch:
    """The patch without the settings that the job refused."""
    if patch.by_run:
        return patch
    return replace(patch, set={key: value for key, value in patch.set.items() if key in keys_of(settings)})


def left_to_user(
    first: Diagnosis, best: Diagnosis, rungs: Sequence[Rung], allow_numerics: bool, noise_share: float | None = None
) -> tuple[LeftToUser, ...]:
    """The planned changes of the best run that no run tried, or that the job refused, and why.

    Lines of code are those of the first run, which alone looks for them.
    """
    refused = {rung.rule: rung.because for rung in rungs if rung.decision == "refused"}
    left, tried = [], {rung.rule for rung in rungs}
    for step in best.plan:
        apart = 0.0 if step.rule in tried else apart_share(rungs)
        because = why_not(best, step, allow_numerics, noise_share, apart) or refused.get(step.rule, "")
        if because:
            finding = best.finding(step.rule)
            said = step.patch is not None and python_lines(step.patch, best.versions)
            change = "; ".join(said) if said else (finding.action if finding else "") or step.rule
            do = finding.do if finding is not None and not said else ""
            seen = first.finding(step.rule)
            left.append(
                LeftToUser(
                    rule=step.rule,
                    change=change,
                    because=because,
                    do=do,
                    predicted=expected_range(step),
                    likely=step.likely_speedup,
                    where=seen.where if seen is not None else (),
                )
            )
    return tuple(left)
