"""How often `diagnose compare` says better or worse of two equal runs, and which differences it finds.

    python benchmarks/compare.py mlperf_v5.1_step_times.csv.gz > benchmarks/reports/compare-DATE.md

The table holds every logged step time of repeated runs (system, run, step, step_time_s). Equal runs are all pairs of
repeats of one system: whole logs, the same few steps of each, any few of each, and neighbouring ones of one run. Faster
ones are the same pairs with the steps of one side made shorter.
"""

import argparse
import csv
import gzip
import io
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from diagnose.arrays import Floats
from diagnose.commands.compare.comparing import compare
from diagnose.commands.compare.noise import FLOOR, FLOOR_ELSEWHERE
from diagnose.commands.compare.side import Side, side_of_log
from diagnose.commands.compare.step_time import without_start
from diagnose.series import Series, Track

WINDOWS = (4, 8, 20, 50)
DRAWS = 5  # windows of each pair: one of each leaves the wrong ones, of which there are few, to chance
GAINS = (1.01, 1.02, 1.03, 1.05, 1.10)


class Steps(NamedTuple):
    """Seconds of steps that follow each other, and the number of the first."""

    seconds: Floats
    first: int = 1

    def window(self, begin: int, steps: int) -> "Steps":
        """So many steps from position `begin` on."""
        return Steps(self.seconds[begin : begin + steps], self.first + begin)

    def faster(self, gain: float) -> "Steps":
        """The same run, faster by the factor."""
        return Steps(self.seconds / gain, self.first)


Pair = tuple[Steps, Steps]


def runs_of(path: Path) -> dict[tuple[str, ...], list[Floats]]:
    """The step times in seconds of each run, by system and benchmark."""
    found: dict[tuple[str, ...], dict[str, list[float]]] = {}
    with io.TextIOWrapper(gzip.open(path) if path.suffix == ".gz" else path.open("rb"), encoding="utf-8") as file:
        for row in csv.DictReader(file):
            key = (row["source_repo"], row["system"], row["benchmark"], row["accelerators"], row["global_batch_size"])
            found.setdefault(key, {}).setdefault(row["run"], []).append(float(row["step_time_s"]))
    return {key: [np.array(seconds) for seconds in runs.values()] for key, runs in found.items()}


def side(steps: Steps) -> Side:
    """A log with these step times, numbered as in the run."""
    track = Track(None, "", steps.first + np.arange(len(steps.seconds)), steps.seconds)
    return side_of_log(Series("csv", (), "s", (track,)), "log")


def logs(runs: dict[tuple[str, ...], list[Floats]]) -> Iterator[Pair]:
    """Every two repeats of a system."""
    for repeats in runs.values():
        for one, other in itertools.combinations(repeats, 2):
            yield Steps(one), Steps(other)


def windows(pairs: Sequence[Pair], steps: int, rng: np.random.Generator) -> Iterator[Pair]:
    """The same window of so many steps of both runs, anywhere behind the start."""
    for one, other in pairs:
        begin = _begin(one, other, steps, rng)
        yield one.window(begin, steps), other.window(begin, steps)


def elsewhere(pairs: Sequence[Pair], steps: int, rng: np.random.Generator) -> Iterator[Pair]:
    """A window of each run, anywhere behind the start."""
    for one, other in pairs:
        yield tuple(run.window(_begin(one, other, steps, rng), steps) for run in (one, other))  # type: ignore[misc]


def neighbours(pairs: Sequence[Pair], steps: int, rng: np.random.Generator) -> Iterator[Pair]:
    """Two windows of one run, one behind the other."""
    for one, _ in pairs:
        begin = _begin(one, one, 2 * steps, rng)
        yield one.window(begin, steps), one.window(begin + steps, steps)


def _begin(one: Steps, other: Steps, steps: int, rng: np.random.Generator) -> int:
    first = max(len(run.seconds) - len(without_start(run.seconds)) for run in (one, other))
    return int(rng.integers(first, min(len(one.seconds), len(other.seconds)) - steps))


def verdicts(pairs: Iterable[Pair], gain: float = 1.0) -> Counter[str]:
    """How often each verdict is given where the steps of the second run are shorter by the factor."""
    return Counter(compare(side(one), side(other.faster(gain))).verdict for one, other in pairs)


def row(name: str, found: Counter[str]) -> str:
    """A line of the table of equal runs."""
    total, wrong = found.total(), found["better"] + found["worse"]
    return f"| {name} | {total} | {found['better']} | {found['worse']} | {100 * wrong / total:.1f} % |"


def spread(pairs: Sequence[Pair]) -> Floats:
    """How far the mean steps of equal runs lie apart, shares."""
    means = [[float(without_start(run.seconds).mean()) for run in pair] for pair in pairs]
    return np.abs(np.log([one / other for one, other in means]))


def report(path: Path, seed: int, write: Callable[[str], None]) -> None:
    """Everything, as Markdown."""
    pairs, rng = list(logs(runs_of(path))), np.random.default_rng(seed)
    apart = spread(pairs)
    quantiles = ", ".join(f"{100 * np.quantile(apart, q):.2f} % ({100 * q:.0f} %)" for q in (0.5, 0.9, 0.99))
    write(f"# Verdicts of compare\n\n`python benchmarks/compare.py {path.name} --seed {seed}`\n")
    write(
        f"{len(pairs)} pairs of equal runs, whose mean steps lie apart by {quantiles}. The floor is {100 * FLOOR:g} %,"
    )
    write(f"and {100 * FLOOR_ELSEWHERE:g} % where the steps of both are of different places of their runs.\n")
    write(f"Windows are drawn {DRAWS} times from each pair.\n")
    write("| equal runs | pairs | better | worse | wrong |\n|---|---:|---:|---:|---:|")
    write(row("whole logs", verdicts(pairs)))
    for steps in WINDOWS:
        write(row(f"the same {steps} steps of each", verdicts(windows(pairs * DRAWS, steps, rng))))
    for steps in WINDOWS:
        write(row(f"any {steps} steps of each", verdicts(elsewhere(pairs * DRAWS, steps, rng))))
    for steps in WINDOWS:
        write(row(f"{steps} steps and the next {steps} of one run", verdicts(neighbours(pairs * DRAWS, steps, rng))))
    write("\n| B is faster by | " + " | ".join(f"{100 * (gain - 1):.0f} %" for gain in GAINS) + " |")
    write("|---|" + "---:|" * len(GAINS))
    for name, made in (("whole logs", lambda: pairs), ("the same 20 steps of each", lambda: windows(pairs, 20, rng))):
        found = (verdicts(made(), gain)["better"] / len(pairs) for gain in GAINS)
        write(f"| {name}: better | " + " | ".join(f"{100 * share:.0f} %" for share in found) + " |")


def main() -> None:
    """Prints the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    report(given.table, given.seed, print)


if __name__ == "__main__":
    main()
