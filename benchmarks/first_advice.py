"""Whether the first advice is right, and its promised gain true, on small jobs that are slow for one reason each.

    python benchmarks/first_advice.py --repeats 1             # all kinds, about twenty minutes on two idle cores
    python benchmarks/first_advice.py --only loader --write benchmarks/reports
    python benchmarks/first_advice.py --list

Each job is run under `diagnose run`; then with its first advice made by `diagnose run --apply`, where that can make it;
then it and the form in which the advice is followed take turns without diagnose. Followed is the value of the advice's
patch where it has one, else what `advice_jobs/kinds.py` says. The advice is right where it is what that file says, no
form crashes, and all forms see the same samples. Of times only the ratio of mean steps counts, the median over the
repeats. Where other processes took the cores, the kind is tried again, and then withheld: it does not count as right.
Jobs of one process run on a GPU where torch sees one; which advice is right is stated for a CPU.

Needs torch and transformers. Kinds that need datasets, trl, accelerate, gymnasium, pillow, lightning, hydra-core or
deepspeed are left out where those are not installed, and do not count as right either.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from advice_jobs.kinds import KINDS, Kind
from advice_jobs.timing import where
from advice_runs import applied, diagnosed, in_turns, scratch
from advice_score import NOISE, OTHERS, Outcome, Ran, Told, same_samples

REPEATS, TRIES = 3, 3
WIDTHS = (35, 20, 24, 16, 12, 9, 7, 8, 8, 0)
HEADS = ("job", "class", "first advice", "right", "promised", "measured", "inside", "typed", "samples", "repeats")


def followed_options(kind: Kind, told: Told) -> dict[str, object]:
    """The options of the job with the advice followed."""
    by_patch = {kind.by_patch[key]: value for key, value in told.patch.items() if key in kind.by_patch}
    return {**kind.slow, **kind.followed, **by_patch}


def missing(kind: Kind) -> tuple[str, ...]:
    """The packages that the kind needs and that are not installed, and what the CPU would have to lack."""
    units = Path("/proc/cpuinfo").read_text().split()
    return (
        *(name for name in kind.needs if importlib.util.find_spec(name) is None),
        *(f"a CPU without {name}" for name in kind.without if name in units),
    )


def measured(kind: Kind, repeats: int, others: float = OTHERS) -> Outcome:
    """The advice, and what it buys; tried again where other processes took the cores."""
    if absent := missing(kind):
        return Outcome(kind, Told("", None, {}), missing=absent)
    for _ in range(TRIES):
        with scratch() as folder:
            told, first = diagnosed(kind, folder)
            if not first.crowded(others) and not (told.busy and others < 1):
                return _followed(kind, told, first, repeats, folder, others)
    return Outcome(kind, told, crowded=first.crowded(others))


def _followed(kind: Kind, told: Told, first: Ran, repeats: int, folder: str, others: float) -> Outcome:
    """What befalls who follows the advice."""
    typed, run = applied(kind, told, folder)
    runs, speedups = [first, *([run] if run else [])], []
    for _ in range(repeats + TRIES - 1 if kind.followed and repeats else 0):
        pair = in_turns(kind, followed_options(kind, told), folder)
        runs += pair
        slow, followed = pair
        if slow.step_ns and followed.step_ns and not (slow.crowded(others) or followed.crowded(others)):
            speedups.append(slow.step_ns / followed.step_ns)
        if len(speedups) == repeats or slow.failed or followed.failed:
            break
    failures = tuple(dict.fromkeys(one.failed for one in runs if one.failed and one is not run))
    return Outcome(kind, told, tuple(speedups), typed, same_samples(runs), failures)


def row(outcome: Outcome) -> tuple[str, ...]:
    """The outcome as the table shows it."""
    kind, told, speedups = outcome.kind, outcome.told, outcome.speedups
    said = "" if told.promised is None else f"{told.promised[0]:.2f}-{_high(told.promised[1])}x"
    return (
        kind.name,
        told.class_ + ("" if outcome.class_right is not False else f", not {' or '.join(kind.classes)}"),
        told.rule or "nothing",
        judged(outcome),
        said,
        f"{median(speedups):.2f}x" if speedups else "",
        {True: "yes", False: "no", None: ""}[outcome.inside],
        outcome.typed,
        {True: "same", False: "changed", None: ""}[outcome.samples],
        " ".join(f"{speedup:.2f}" for speedup in speedups),
    )


def _high(high: float | None) -> str:
    return "" if high is None else f"{high:.2f}"


def judged(outcome: Outcome) -> str:
    """Whether it is right, and what is wrong with it."""
    if outcome.missing:
        return f"left out: needs {', '.join(outcome.missing)}"
    if outcome.crowded:
        return "withheld"
    wrong = () if outcome.advice_right else (f"not {outcome.kind.truth}",)
    crashed = ("crashes when typed",) if outcome.typed == "crashed" else ()
    changed = ("other samples",) if outcome.samples is False else ()
    return "yes" if outcome.right else f"no: {'; '.join((*wrong, *crashed, *changed, *outcome.failures))}"


def show(cells: Sequence[str]) -> None:
    """Print a row of the table at once: the next one takes a minute."""
    print("  ".join(f"{cell:{width}}" for cell, width in zip(cells, WIDTHS, strict=True)).rstrip(), flush=True)


def summary(outcomes: Sequence[Outcome]) -> str:
    """How many first pieces of advice are right, and how many gains lie inside."""
    inside = [one.inside for one in outcomes if one.inside is not None]
    classes = [one.class_right for one in outcomes if one.class_right is not None]
    seen = [one.samples for one in outcomes if one.samples is not None]
    typed = [one.typed for one in outcomes if one.typed]
    withheld, left_out = sum(one.crowded for one in outcomes), sum(bool(one.missing) for one in outcomes)
    return "; ".join(
        (
            f"class right: {sum(classes)} of {len(classes)}",
            f"first advice right: {sum(one.right for one in outcomes)} of {len(outcomes)}"
            f" ({withheld} withheld, {left_out} left out)",
            f"gain inside the range: {sum(inside)} of {len(inside)}",
            f"crashes when typed: {typed.count('crashed')} of {len(typed)}",
            f"other samples: {seen.count(False)} of {len(seen)}",
        )
    )


def _asked(repeats: int) -> str:
    return "" if repeats == REPEATS else f" --repeats {repeats}"


def written(outcomes: Sequence[Outcome], folder: Path, repeats: int) -> Path:
    """A dated report with the command, the table and the summary."""
    lines = [
        "# First advice", "", f"`python benchmarks/first_advice.py{_asked(repeats)} --write benchmarks/reports`", "",
        summary(outcomes), "",
        f"| {' | '.join(HEADS)} |", f"|{'---|' * len(HEADS)}",
        *(f"| {' | '.join(cell.replace('|', ' or ') for cell in row(one))} |" for one in outcomes), "",
        f"Ratios of mean steps on {where()}; inside allows {NOISE:.0%} for noise, and the spread of the"
        " repeats where that is more (1.48 times their median deviation). Typed is what `diagnose run --apply` made of"
        " the first advice; samples says whether all forms of the job saw the same. Withheld is what other processes"
        f" took {OTHERS:.0%} of the cores from in {TRIES} tries.", "",
    ]  # fmt: skip
    path = folder / f"first-advice-{datetime.datetime.now(datetime.UTC).date()}.md"
    path.write_text("\n".join(lines))
    return path


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the kinds that are asked for, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="NAME", help="kinds whose name holds this text")
    parser.add_argument("--list", action="store_true", help="name the kinds and what is right of each; run none")
    parser.add_argument("--repeats", type=int, default=REPEATS, help=f"pairs of runs of each kind ({REPEATS})")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write a dated report there")
    parser.add_argument(
        "--others", type=float, default=OTHERS, metavar="SHARE",
        help=f"of the cores that other processes may take before a run is withheld ({OTHERS}); with 1 none is",
    )  # fmt: skip
    asked = parser.parse_args(arguments)
    kinds = [kind for kind in KINDS if asked.only in kind.name]
    if asked.list:
        print("\n".join(f"{kind.name:{WIDTHS[0]}}  {kind.truth}" for kind in kinds))
        return
    outcomes = []
    show(HEADS)
    for kind in kinds:
        outcomes.append(measured(kind, asked.repeats, asked.others))
        show(row(outcomes[-1]))
    print(summary(outcomes))
    if asked.write is not None:
        print(written(outcomes, asked.write, asked.repeats))


if __name__ == "__main__":
    main()
