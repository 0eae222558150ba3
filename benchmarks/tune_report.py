"""The figures of `benchmarks/tune.py`, and its report."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from advice_jobs.timing import where
from tune_pairs import Further, decided, with_further

from diagnose.commands.tune.answer import Rung, Tuning
from diagnose.commands.tune.proposals import factors_apart
from diagnose.commands.tune.settings import keys_of
from diagnose.diagnosis.promise import standing_of
from diagnose.diagnosis.terms import Estimate, Speedup
from diagnose.judge.run_pair import FLOOR_ON_HOST

WIDTHS = (34, 26, 8, 8, 8, 8, 0)
USUAL_TIMES = 2
_AS_GOOD = 0.95
HEADS = ("job", "first advice", "buys", "best", "tuned", "by hand", "kept")


@dataclass(frozen=True)
class Alone:
    """One change of the job as it is, by itself, and its speed-up; None where the run failed."""

    rule: str
    change: str
    predicted: Speedup | None = None
    speedup: Estimate | None = None


@dataclass(frozen=True)
class Tuned:
    """One job: its tunes, each reachable change alone, and the cure by hand.

    Attributes:
        job: its name.
        tunings: one for each time.
        first_advice: rule of the first advice; "" where none is given.
        advised_by_hand: whether the first advice is that cure and no run of a tune can make it.
        alone: each change that a run can make, from the job as it is.
        by_hand: the cure that stands beside the job.
        further: of each tune, speed-ups by pairs of runs that were made after it.
        told_apart: of each two equal runs of the tunes whether `compare` calls one of them better.
    """

    job: str
    tunings: tuple[Tuning, ...]
    first_advice: str
    advised_by_hand: bool
    alone: tuple[Alone, ...]
    by_hand: Alone | None
    further: tuple[Further, ...] = ()
    told_apart: tuple[bool, ...] = ()

    @property
    def promises(self) -> Iterator[tuple[int, Rung, int]]:
        """Of each tune and each tried change the run that decides, and the pairs of runs that `achieved` is of."""
        for number, tuning in enumerate(self.tunings):
            for rung, pairs in decided(tuning):
                more = self.further[number].get(rung.number, ()) if self.further else ()
                yield number, with_further(rung, more), pairs + len(more)

    @property
    def of_first_advice(self) -> float | None:
        """What the first advice buys by itself; None where nothing is advised, or nothing measured it."""
        if self.advised_by_hand:
            return self.by_hand.speedup[1] if self.by_hand is not None and self.by_hand.speedup is not None else None
        found = (each.speedup[1] for each in self.alone if each.rule == self.first_advice and each.speedup is not None)
        return next(found, None)

    @property
    def best_alone(self) -> float:
        """What the best single change buys, no change included."""
        advised = self.of_first_advice
        return max([1.0, *(each.speedup[1] for each in self.alone if each.speedup), *([advised] if advised else [])])

    @property
    def regret(self) -> float:
        """How much faster the best single change is than the first advice.

        An advice that nothing measured is taken to buy nothing, and so is none, where the cure by hand is another one.
        """
        advised = self.of_first_advice
        if advised is not None:
            return self.best_alone / advised - 1
        hand = self.by_hand.speedup if self.by_hand is not None else None
        best = max(self.best_alone, hand[1] if hand is not None else 1.0)
        return best - 1 if best > 1 + FLOOR_ON_HOST else 0.0

    @property
    def finals(self) -> tuple[float, ...]:
        """The speed with which each tune ends: of its repeats, else 1 where nothing is kept."""
        return tuple(final_of(tuning)[1] for tuning in self.tunings)

    @property
    def worse(self) -> bool:
        """Whether a tune ends slower than it began, beyond the noise."""
        return any(final_of(tuning)[2] < 1 for tuning in self.tunings)

    @property
    def same_end(self) -> str:
        """Whether all tunes keep the same: "yes", "other numbers" or "no"."""
        kept = [tuning.best.settings if tuning.best is not None else {} for tuning in self.tunings]
        if all(each == kept[0] for each in kept):
            return "yes"
        return "other numbers" if all(keys_of(each) == keys_of(kept[0]) for each in kept) else "no"


def final_of(tuning: Tuning) -> Estimate:
    """The speed of what is kept over the job as it is, as the repeats have it where there are some."""
    best = tuning.best
    if best is None or best.number == 0:
        return 1.0, 1.0, 1.0
    repeated = tuning.repeat_of(best)
    return (repeated.total if repeated is not None else None) or best.total or (1.0, 1.0, 1.0)


def inside(predicted: Speedup, achieved: Estimate) -> bool:
    """Whether what came lies in the range, as the ledger of promises tells it."""
    return standing_of(achieved[1], predicted) == "as"


def may_be_inside(predicted: Speedup, achieved: Estimate) -> bool:
    """Whether the 99 % interval of what came reaches the range."""
    low, high = predicted
    return achieved[2] >= low and (high is None or achieved[0] <= high)


def header() -> str:
    """The heads of the table that is printed."""
    return _spaced(HEADS)


def line(tuned: Tuned) -> str:
    """A job as the table shows it."""
    return _spaced(_cells(tuned))


def _spaced(cells: Sequence[str]) -> str:
    return "  ".join(f"{cell:{width}}" for cell, width in zip(cells, WIDTHS, strict=True)).rstrip()


def _cells(tuned: Tuned) -> tuple[str, ...]:
    best = tuned.tunings[0].best
    kept = "; ".join(tuned.tunings[0].patch) if best is not None and best.number else "nothing"
    hand = tuned.by_hand.speedup if tuned.by_hand is not None else None
    advised = tuned.of_first_advice
    return (
        tuned.job,
        (tuned.first_advice or "nothing") + (" (by hand)" if tuned.advised_by_hand else ""),
        f"{advised:.2f}x" if advised is not None else "",
        f"{tuned.best_alone:.2f}x",
        " ".join(f"{final:.2f}x" for final in tuned.finals),
        f"{hand[1]:.2f}x" if hand is not None else "",
        kept,
    )


def figures(found: Sequence[Tuned]) -> list[str]:
    """The bars, each as a sentence."""
    rungs = [rung for tuned in found for _, rung, _ in tuned.promises]
    pairs = [(rung.predicted, rung.achieved) for rung in rungs if rung.predicted and rung.achieved]
    own = [rung for tuned in found for tuning in tuned.tunings for rung, _ in decided(tuning)]
    by_tunes = [(rung.predicted, rung.achieved) for rung in own if rung.predicted and rung.achieved]
    alone = [(each.predicted, each.speedup) for one in found for each in one.alone if each.predicted and each.speedup]
    regrets = [one.regret for one in found]
    healthy = [one for one in found if one.job.startswith("healthy")]
    hands = [
        median(one.finals) >= _AS_GOOD * one.by_hand.speedup[1] for one in found if one.by_hand and one.by_hand.speedup
    ]
    tunes = [tuning for one in found for tuning in one.tunings]
    equal = [factor - 1 for tuning in tunes for factor in factors_apart(tuning.rungs)] or [0.0]
    apart = [told for one in found for told in one.told_apart]
    return [
        f"- achieved inside the predicted range: {_held(pairs)} (changes that tunes tried, by all pairs of runs)",
        f"- the same by the runs of the tunes alone: {_held(by_tunes)}",
        f"- the same of each change alone, from the job as it is: {_held(alone)}",
        f"- equal runs lie apart: median {median(equal):.1%}, most {max(equal):.1%} ({len(equal)} pairs)",
        f"- equal runs of which one is called better: {_of(apart)} pairs",
        f"- regret of the first advice: median {median(regrets):.1%}, most {max(regrets):.1%} ({len(regrets)} jobs)",
        f"- at least {_AS_GOOD:.0%} of the speed of the cure by hand: {_of(hands)} jobs",
        f"- all tunes of a job keep the same: {sum(one.same_end == 'yes' for one in found)} of {len(found)}; the same "
        f"settings with other numbers: {sum(one.same_end == 'other numbers' for one in found)}",
        f"- healthy jobs left alone: {_of([not keeps(one) for one in healthy])}",
        f"- jobs of which a tune ends slower than it began: {sum(one.worse for one in found)} of {len(found)}",
        f"- {len(tunes)} tunes, {sum(len(tuning.rungs) for tuning in tunes)} runs, "
        f"{sum(rung.seconds for tuning in tunes for rung in tuning.rungs) / 60:.0f} minutes",
    ]  # fmt: skip


def _held(pairs: Sequence[tuple[Speedup, Estimate]]) -> str:
    reached = sum(may_be_inside(*pair) for pair in pairs)
    return f"{_of([inside(*pair) for pair in pairs])}; the 99 % interval reaches the range of {reached}"


def keeps(tuned: Tuned) -> bool:
    """Whether a tune of it keeps any change."""
    return any(tuning.best is not None and tuning.best.number > 0 for tuning in tuned.tunings)


def _of(judged: Sequence[bool]) -> str:
    return f"{sum(judged)} of {len(judged)}"


def _times(found: Sequence[Tuned]) -> str:
    """How often each job was tuned, as the command was told; "" for the usual number."""
    most = max((len(tuned.tunings) for tuned in found), default=USUAL_TIMES)
    return "" if most == USUAL_TIMES else f" --times {most}"


def written(found: Sequence[Tuned], folder: Path, again: bool) -> Path:
    """A dated report with the command, the figures and all runs; `again` where predictions were made after them."""
    anew = ["Predictions are what the rules say of the captures of these runs, analysed anew."] if again else []
    lines = [
        "# Tunes of small jobs", "",
        f"`python benchmarks/tune.py{_times(found)} --write benchmarks/reports{' --again' if again else ''}`", "",
        f"On {where()}. Speed-ups are of the mean step, per sample where a step has other samples.",
        *anew, "",
        *figures(found), "", "## Jobs", "",
        "`buys` is the first advice by itself, `best` the best single change that a run can make, `tuned` the end of",
        "each tune.", "",
        *_table((*HEADS, "regret", "same end"), (_job_row(one) for one in found)), "",
        "## Runs of the tunes", "",
        *_table(("job", "tune", "run", "change", "predicted", "achieved", "inside", "outcome"), _rung_rows(found)), "",
        "## What was promised and what came", "",
        "By all pairs of runs without and with the change: those of the tune, and those that were made after it.", "",
        *_table(("job", "tune", "change", "predicted", "achieved", "inside", "pairs"), _promise_rows(found)), "",
        "## Each change alone", "",
        *_table(("job", "rule", "change", "predicted", "achieved", "inside"), _alone_rows(found)), "",
    ]  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"tune-{datetime.datetime.now(datetime.UTC).date()}.md"
    path.write_text("\n".join(lines))
    return path


def _table(heads: Sequence[str], rows: Iterator[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows)]


def _job_row(tuned: Tuned) -> Sequence[str]:
    return *_cells(tuned), f"{tuned.regret:.1%}", tuned.same_end


def _rung_rows(found: Sequence[Tuned]) -> Iterator[Sequence[str]]:
    for tuned in found:
        for number, tuning in enumerate(tuned.tunings):
            for rung in tuning.rungs[1:]:
                came = rung.achieved
                yield (
                    tuned.job,
                    str(number),
                    str(rung.number),
                    rung.change,
                    *_beside(rung.predicted, came),
                    rung.decision,
                )


def _promise_rows(found: Sequence[Tuned]) -> Iterator[Sequence[str]]:
    for tuned in found:
        for number, rung, pairs in tuned.promises:
            yield tuned.job, str(number), rung.change, *_beside(rung.predicted, rung.achieved), str(pairs)


def _alone_rows(found: Sequence[Tuned]) -> Iterator[Sequence[str]]:
    for tuned in found:
        for each in (*tuned.alone, *([tuned.by_hand] if tuned.by_hand is not None else [])):
            yield tuned.job, each.rule, each.change, *_beside(each.predicted, each.speedup)


def _beside(predicted: Speedup | None, came: Estimate | None) -> tuple[str, str, str]:
    said = "" if predicted is None else f"{predicted[0]:.2f}-{'' if predicted[1] is None else f'{predicted[1]:.2f}'}x"
    judged = "" if predicted is None or came is None else "yes" if inside(predicted, came) else "no"
    return said, "" if came is None else f"{came[1]:.2f}x ({came[0]:.2f}-{came[2]:.2f})", judged
