"""How often `diagnose compare` says better or worse of two equal runs, and which differences it finds.

    python -m benchmarks.accuracy.compare mlperf_v5.1_step_times.csv.gz --write     # two minutes

The table holds every logged step time of repeated runs (system, run, step, step_time_s). Equal runs are all pairs of
repeats of one system: whole logs, the same few steps of each, any few of each, and neighbouring ones of one run. Faster
ones are the same pairs with the steps of one side made shorter.
"""

import csv
import gzip
import io
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from reporting import page, parser, publish, table

from diagnose.arrays import Floats
from diagnose.commands.compare.comparing import compare
from diagnose.commands.compare.noise import FLOOR_ELSEWHERE
from diagnose.commands.compare.side import Side, side_of_log
from diagnose.judge.mean_step import without_start
from diagnose.judge.run_pair import FLOOR
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


def row(name: str, found: Counter[str]) -> list[object]:
    """A line of the table of equal runs."""
    total, wrong = found.total(), found["better"] + found["worse"]
    return [name, total, found["better"], found["worse"], f"{100 * wrong / total:.1f} %"]


def spread(pairs: Sequence[Pair]) -> Floats:
    """How far the mean steps of equal runs lie apart, shares."""
    means = [[float(without_start(run.seconds).mean()) for run in pair] for pair in pairs]
    return np.abs(np.log([one / other for one, other in means]))


def equal_runs(pairs: Sequence[Pair], rng: np.random.Generator) -> Iterator[list[object]]:
    """What is said of runs that are equal: whole, and windows of each length."""
    yield row("whole logs", verdicts(pairs))
    for draw, name in (
        (windows, "the same {0} steps of each"),
        (elsewhere, "any {0} steps of each"),
        (neighbours, "{0} steps and the next {0} of one run"),
    ):
        for steps in WINDOWS:
            yield row(name.format(steps), verdicts(draw(pairs * DRAWS, steps, rng)))


def faster_runs(pairs: Sequence[Pair], rng: np.random.Generator) -> Iterator[list[str]]:
    """How often the second run is called better where it is faster."""
    made = (("whole logs", lambda: pairs), ("the same 20 steps of each", lambda: windows(pairs, 20, rng)))
    for name, drawn in made:
        found = (verdicts(drawn(), gain)["better"] / len(pairs) for gain in GAINS)
        yield [f"{name}: better", *(f"{100 * share:.0f} %" for share in found)]


def main() -> None:
    """Prints the report."""
    options = parser(__doc__)
    options.add_argument("table", type=Path)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    pairs, rng = list(logs(runs_of(given.table))), np.random.default_rng(given.seed)
    apart = spread(pairs)
    quantiles = ", ".join(f"{100 * np.quantile(apart, q):.2f} % ({100 * q:.0f} %)" for q in (0.5, 0.9, 0.99))
    about = (
        f"{len(pairs)} pairs of equal runs, whose mean steps lie apart by {quantiles}. The floor is {100 * FLOOR:g} %, "
        f"and {100 * FLOOR_ELSEWHERE:g} % where the steps of both are of different places of their runs. Windows are "
        f"drawn {DRAWS} times from each pair."
    )
    equal = table(("equal runs", "pairs", "better", "worse", "wrong"), equal_runs(pairs, rng))
    heads = ["B is faster by", *(f"{100 * (gain - 1):.0f} %" for gain in GAINS)]
    text = page("Verdicts of compare", about, equal, table(heads, faster_runs(pairs, rng)))
    publish(text, given.write, "compare")


if __name__ == "__main__":
    main()
