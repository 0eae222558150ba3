"""Whether the range of `diagnose scaling` holds: the largest size of each job, told from the smaller ones alone.

    python -m benchmarks.fitting.scaling benchmarks/ladder.csv [more tables of runs] [--write]

Of every job of three sizes or more the runs of the largest are held back. The report has how often the range left by
the others held them, how wide it is (high over low), and how far its likely value is off, both as medians.
"""

from pathlib import Path
from statistics import median

from reporting import page, parser, publish, table

from diagnose.commands.scaling.runs_fit import fit_of
from diagnose.commands.scaling.table import RowChoice, read_table
from diagnose.predict.job_run import JobRuns, measured_rate


def held_back(ladder: JobRuns) -> tuple[bool, float, float] | None:
    """Whether the range held the largest size, its width, and how far it is off; None where nothing is told."""
    *_, largest = ladder.sizes
    smaller = [run for run in ladder.runs if run.gpus < largest]
    fit = fit_of(smaller)
    if fit.because:
        return None
    low, likely, high = fit.rate_at(largest)
    least, middle, most = measured_rate([run for run in ladder.runs if run.gpus == largest])
    return low <= most and least <= high, high / low, abs(likely / middle - 1)


def row(path: Path) -> list[str]:
    """Of the jobs of a table: how many, in how many the range held, how wide it is and how far it is off."""
    ladders, _ = read_table(path, RowChoice({}))
    told = [found for ladder in ladders if len(ladder.sizes) > 2 and (found := held_back(ladder)) is not None]
    if not told:
        return [path.name, "0", "-", "-", "-"]
    held, width, off = zip(*told, strict=True)
    return [path.name, f"{len(told)}", f"{sum(held)}", f"{median(width):.2f}", f"{100 * median(off):.0f} %"]


def main() -> None:
    """Print the report, or write it."""
    options = parser(__doc__)
    options.add_argument("tables", type=Path, nargs="+")
    chosen = options.parse_args()
    heads = "table", "jobs of three sizes or more", "largest size in the range", "high over low", "likely value off"
    rows = table(heads, map(row, chosen.tables))
    publish(page("The range of extrapolated throughput", "Medians over the jobs.", rows), chosen.write, "scaling")


if __name__ == "__main__":
    main()
