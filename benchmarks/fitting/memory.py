"""The memory ledger against what was measured: the ladder of this repository, and public tables given by path.

    python -m benchmarks.fitting.memory                          # the ladder
    python -m benchmarks.fitting.memory --tables FOLDER --write

FOLDER holds `ultrascale_playbook_h100.csv` (1B to 80B models trained with nanotron on 8 to 512 H100) and may hold
`torchtitan.csv`. The ladder states memory as the process took it; nanotron states what torch allocated on rank 0, which
is on the first pipeline stage; torchtitan states what torch reserved.
"""

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from reporting import page, parser, publish, table

from diagnose.commands.fit.table import plan_of
from diagnose.predict.memory.estimate import GIB, memory_estimate, stage_estimates
from diagnose.predict.memory.job import JobPlan
from diagnose.predict.memory.remedies import largest_micro_batch

from .rows import LADDER, ladder_plan, rows_of, shape_of, titan_plan

ULTRASCALE, TORCHTITAN = "ultrascale_playbook_h100.csv", "torchtitan.csv"


@dataclass(frozen=True)
class Row:
    """One job that ran, or ran out of memory: GiB as they were measured (None: not stated) and as the ledger says."""

    what: str
    plan: JobPlan
    measured_gib: float | None
    predicted_gib: float
    ran: bool = True

    @property
    def error(self) -> float | None:
        """Share of the measured memory by which the ledger is above it."""
        return None if self.measured_gib is None else self.predicted_gib / self.measured_gib - 1


def ladder_rows() -> Iterator[Row]:
    """Every row of the ladder; memory is that of the process."""
    for row in rows_of(LADDER):
        plan, ran = ladder_plan(row), row["outcome"] == "ok"
        measured = float(row["memory_gb"]) if ran and row["memory_gb"] else None
        yield Row(f"{row['source']} {row['row']}", plan, measured, memory_estimate(plan).total_bytes / GIB, ran)


def ultrascale_rows(path: Path) -> Iterator[Row]:
    """Every row that states memory; that of the first stage is what rank 0 logs."""
    for row in rows_of(path):
        if row["gpu_memory_gb"]:
            plan = plan_of(row, "nanotron", shape_of)
            allocated = stage_estimates(plan)[0].allocated_bytes / GIB
            yield Row(row["model"], plan, float(row["gpu_memory_gb"]), allocated)


def torchtitan_rows(path: Path) -> Iterator[Row]:
    """Llama 3.1 8B under FSDP without compile, of which the table states everything that the ledger needs."""
    for row in rows_of(path):
        if row["techniques"] == "FSDP" and (plan := titan_plan(row)):
            what = f"Llama 3.1 {plan.name}, FSDP on {plan.gpus} GPUs"
            yield Row(what, plan, float(row["memory_gib"]), memory_estimate(plan).reserved_bytes / GIB)


def absolute_errors(rows: Sequence[Row]) -> list[float]:
    """Sizes of the errors, smallest first; shares of the measured memory."""
    return sorted(abs(row.error) for row in rows if row.error is not None)


def row_table(rows: Iterable[Row]) -> str:
    """One line for each job: measured, predicted, and the largest micro-batch that the ledger admits."""
    heads = "row", "job", "ran", "measured GiB", "ledger GiB", "error", "largest micro-batch"
    once: dict[object, Row] = {}
    for row in rows:
        once.setdefault((row.plan, row.measured_gib), row)
    return table(heads, map(_row, once.values()))


def _row(row: Row) -> list[object]:
    plan = row.plan
    job = f"{plan.name}, {plan.gpus} GPU, {plan.dtype}, {plan.attention}{', Liger' * plan.liger}, {plan.micro_batch}"
    measured = "-" if row.measured_gib is None else f"{row.measured_gib:.1f}"
    error = "-" if row.error is None else f"{100 * row.error:+.0f} %"
    ran = "yes" if row.ran else "no"
    return [row.what, job, ran, measured, f"{row.predicted_gib:.1f}", error, largest_micro_batch(plan)]


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
            sizes = absolute_errors(chosen)
            signed = statistics.median(row.error for row in chosen if row.error is not None)
            cells = f"{100 * statistics.median(sizes):.1f} %", f"{100 * sizes[len(sizes) * 9 // 10]:.0f} %"
            lines.append([f"{name} {value}", len(chosen), *cells, f"{100 * signed:+.1f} %"])
    return table(("group", "rows", "median error", "90th percentile", "median, signed"), lines)


def parts(tables: Path | None) -> Iterator[str]:
    """The tables of the report."""
    yield f"## The ladder, H100 64 GB\n\n{row_table(ladder_rows())}"
    if tables and (path := tables / ULTRASCALE).is_file():
        yield f"## Ultra-Scale Playbook, H100 80 GB\n\n{group_table(list(ultrascale_rows(path)))}"
    if tables and (path := tables / TORCHTITAN).is_file():
        yield f"## torchtitan, H100 96 GB\n\n{row_table(torchtitan_rows(path))}"


def main() -> None:
    """Print the report, or write it."""
    options = parser(__doc__)
    options.add_argument("--tables", type=Path, metavar="FOLDER", help="folder of the public tables")
    chosen = options.parse_args()
    about = "Errors are of the measured memory."
    publish(page("Memory ledger against measurements", about, *parts(chosen.tables)), chosen.write, "fit-memory")


if __name__ == "__main__":
    main()
