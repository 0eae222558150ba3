"""The memory ledger of each training stack against jobs that ran on it: the ladder, and public tables given by path.

    python -m benchmarks.fitting.memory                          # the ladder
    python -m benchmarks.fitting.memory --tables FOLDER --write

FOLDER holds the public tables. Some state memory: the ladder as the process took it, nanotron's what torch allocated on
rank 0, which is on the first pipeline stage, torchtitan's what torch reserved. Of the others it is known that they ran:
they must fit, or fit tightly.
"""

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from reporting import page, parser, publish, table

from diagnose.predict.memory.fits import FitsAnswer
from diagnose.predict.memory.remedies import largest_micro_batch

from .memory_rows import SOURCES, Row

ANSWERS: tuple[FitsAnswer, ...] = ("yes", "tight", "no")
_MANY = 100  # rows that are summed up in groups instead of listed


def absolute_errors(rows: Sequence[Row]) -> list[float]:
    """Sizes of the errors, smallest first; shares of the measured memory."""
    return sorted(abs(row.error) for row in rows if row.error is not None)


def fitting_share(rows: Sequence[Row]) -> float:
    """Of the rows that ran, the share that fits, tightly or not."""
    ran = [row for row in rows if row.ran]
    return sum(row.answer != "no" for row in ran) / len(ran)


def known_rows(tables: Path | None) -> dict[str, list[Row]]:
    """The rows of each stack whose table is there."""
    paths = {name: (tables / file if tables and file else None) for name, (file, _) in SOURCES.items()}
    return {
        name: list(read(paths[name] or Path()))
        for name, (file, read) in SOURCES.items()
        if not file or ((path := paths[name]) and path.is_file())
    }


def stack_table(rows_of: dict[str, list[Row]]) -> str:
    """One line for each stack: how many of its rows that ran fit, and how far measured memory is from the count."""
    heads = (
        "stack", "rows", "ran", *ANSWERS, "fit or tight", "ran out of memory", "of these no", "state memory",
        "median error", "90th percentile", "measured / counted, 10th to 90th",
    )  # fmt: skip
    every = [row for rows in rows_of.values() for row in rows]
    return table(heads, [_stack_line(name, rows) for name, rows in (rows_of | {"all": every}).items()])


def _stack_line(name: str, rows: Sequence[Row]) -> list[object]:
    ran, failed = [row for row in rows if row.ran], [row for row in rows if not row.ran]
    counts = [sum(row.answer == answer for row in ran) for answer in ANSWERS]
    refused = sum(row.answer == "no" for row in failed)
    share = f"{100 * fitting_share(rows):.1f} %"
    return [name, len(rows), len(ran), *counts, share, len(failed), refused, *_misses(rows if name != "all" else ())]


def _misses(rows: Sequence[Row]) -> list[object]:
    sizes = absolute_errors(rows)
    if not sizes:
        return ["-"] * 4
    spread = sorted(1 / (1 + row.error) for row in rows if row.error is not None)
    low, high = spread[len(spread) // 10], spread[len(spread) * 9 // 10]
    return [len(sizes), *_shares(sizes), f"{low:.2f} to {high:.2f}"]


def _shares(sizes: Sequence[float]) -> tuple[str, str]:
    """Median and 90th percentile."""
    return f"{100 * statistics.median(sizes):.1f} %", f"{100 * sizes[len(sizes) * 9 // 10]:.0f} %"


def row_table(rows: Iterable[Row]) -> str:
    """One line for each job: measured, predicted, whether it fits, and the largest micro-batch that likely fits."""
    heads = "row", "job", "ran", "fits", "measured GiB", "ledger GiB", "error", "largest micro-batch"
    once: dict[object, Row] = {}
    for row in rows:
        once.setdefault((row.plan, row.measured_gib), row)
    return table(heads, map(_row, once.values()))


def _row(row: Row) -> list[object]:
    plan = row.plan
    job = f"{plan.name}, {plan.gpus} x {plan.gpu.key}, {plan.dtype}, {plan.attention}{', Liger' * plan.liger}"
    measured = "-" if row.measured_gib is None else f"{row.measured_gib:.1f}"
    error = "-" if row.error is None else f"{100 * row.error:+.0f} %"
    ran = "yes" if row.ran else "no"
    batch = f"{job}, {plan.micro_batch} x {plan.seq_len}"
    return [row.what, batch, ran, row.answer, measured, f"{row.predicted_gib:.1f}", error, largest_micro_batch(plan)]


def group_table(rows: Sequence[Row]) -> str:
    """Median and 90th percentile of the error by model, and by how the job is divided."""
    groups: list[tuple[str, Callable[[Row], object]]] = [
        ("all", lambda row: "rows"), ("model", lambda row: row.what), ("pp", lambda row: row.plan.sharding.pp),
        ("tp", lambda row: row.plan.sharding.tp), ("ZeRO", lambda row: row.plan.sharding.zero),
    ]  # fmt: skip
    lines = []
    for name, key in groups:
        for value in sorted({key(row) for row in rows}, key=lambda value: (len(str(value)), str(value))):
            chosen = [row for row in rows if key(row) == value]
            signed = statistics.median(row.error for row in chosen if row.error is not None)
            cells = _shares(absolute_errors(chosen))
            lines.append([f"{name} {value}", len(chosen), *cells, f"{100 * signed:+.1f} %"])
    return table(("group", "rows", "median error", "90th percentile", "median, signed"), lines)


def parts(tables: Path | None) -> Iterator[str]:
    """The tables of the report."""
    known = known_rows(tables)
    yield f"## By stack\n\n{stack_table(known)}"
    for name, rows in known.items():
        states = any(row.error is not None for row in rows)
        if states:
            yield f"## {name}\n\n{group_table(rows) if len(rows) > _MANY else row_table(rows)}"
    if missed := [row for rows in known.values() for row in rows if row.ran and row.answer == "no"]:
        yield f"## Ran, and are said not to fit\n\n{row_table(missed)}"


def main() -> None:
    """Print the report, or write it."""
    options = parser(__doc__)
    options.add_argument("--tables", type=Path, metavar="FOLDER", help="folder of the public tables")
    chosen = options.parse_args()
    about = "Errors are of the measured memory. A job fits tightly if its board lies within the range of its memory."
    publish(page("Memory ledger against measurements", about, *parts(chosen.tables)), chosen.write, "fit-memory")


if __name__ == "__main__":
    main()
