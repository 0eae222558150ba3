"""Whether the range of `diagnose scaling` holds: the largest size of each job, told from the smaller ones alone.

    python benchmarks/scaling.py benchmarks/ladder.csv [more tables of runs] [--write benchmarks/reports]

Of every job of three sizes or more the runs of the largest are held back. The report has how often the range left by
the others held them, how wide it is (high over low), and how far its likely value is off, both as medians.
"""

import argparse
import datetime
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from diagnose.commands.scaling.ladder_fit import fit_of
from diagnose.commands.scaling.table import Choice, read_table
from diagnose.predict.job_run import Ladder, measured_rate


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


def report(tables: Sequence[Path], day: str) -> Iterator[str]:
    """A line for each table."""
    yield f"# The range of extrapolated throughput, {day}\n"
    yield f"`python benchmarks/scaling.py {' '.join(table.name for table in tables)}`\n"
    yield "| table | jobs of three sizes or more | largest size in the range | high over low | likely value off |"
    yield "|---|---|---|---|---|"
    for table in tables:
        ladders, _ = read_table(table, Choice({}))
        told = [found for ladder in ladders if len(ladder.sizes) > 2 and (found := held_back(ladder)) is not None]
        if not told:
            yield f"| {table.name} | 0 | - | - | - |"
            continue
        held, width, off = zip(*told, strict=True)
        cells = f"{len(told)} | {sum(held)} | {median(width):.2f} | {100 * median(off):.0f} %"
        yield f"| {table.name} | {cells} |"


def main() -> None:
    """Print the report, or write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", type=Path, nargs="+")
    parser.add_argument("--write", type=Path, help="folder to write scaling-DATE.md to")
    options = parser.parse_args()
    day = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    text = "\n".join(report(options.tables, day)) + "\n"
    if options.write:
        (options.write / f"scaling-{day}.md").write_text(text, encoding="utf-8")
    print(text, end="")


if __name__ == "__main__":
    main()
