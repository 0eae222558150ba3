"""Whether the range of `diagnose scaling` holds: the largest size of each job, told from the smaller ones alone.

    python benchmarks/scaling.py benchmarks/ladder.csv [more tables of runs]

Of every job of three sizes or more the runs of the largest are held back. Printed are how often the range left by the
others held them, how wide it is (high over low), and how far its likely value is off, both as medians.
"""

import sys
from pathlib import Path
from statistics import median

from diagnose.predict.scaling import Choice, Ladder, read_table
from diagnose.predict.scaling.ladder_fit import fit_of, measured_rate


def held_back(ladder: Ladder) -> tuple[bool, float, float] | None:
    """Whether the range held the largest size, its width, and how far it is off; None where nothing is told."""
    *_, largest = ladder.sizes
    smaller = [run for run in ladder.runs if run.gpus < largest]
    fit = fit_of(smaller)
    if fit.because:
        return None
    low, likely, high = fit.rate_at(largest)
    least, middle, most = measured_rate([run for run in ladder.runs if run.gpus == largest])
    return low <= most and least <= high, high / low, abs(likely / middle - 1)


def main(tables: list[str]) -> None:
    """A line for each table."""
    print(f"{'table':<40} {'jobs':>5} {'held':>5} {'width':>6} {'off':>6}")
    for name in tables:
        ladders, _ = read_table(Path(name), Choice({}))
        told = [found for ladder in ladders if len(ladder.sizes) > 2 and (found := held_back(ladder)) is not None]
        if not told:
            print(f"{Path(name).name:<40} {0:>5}")
            continue
        held, width, off = zip(*told, strict=True)
        print(f"{Path(name).name:<40} {len(told):>5} {sum(held):>5} {median(width):>6.2f} {100 * median(off):>4.0f} %")


if __name__ == "__main__":
    main(sys.argv[1:])
