"""The memory ledger against what was measured: the ladder of this repository, and public tables given by path.

    python benchmarks/fit_memory.py                                  # the ladder
    python benchmarks/fit_memory.py --tables FOLDER --write benchmarks/reports

FOLDER holds `ultrascale_playbook_h100.csv` (1B to 80B models trained with nanotron on 8 to 512 H100) and may hold
`torchtitan.csv`. The ladder states memory as the process took it; nanotron states what torch allocated on rank 0, which
is on the first pipeline stage; torchtitan states what torch reserved.
"""

from __future__ import annotations

import argparse
import csv
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from diagnose.formulas.named_models import NAMED_MODELS
from diagnose.hardware import table
from diagnose.predict.memory.estimate import GIB, memory_ledger, stage_ledgers
from diagnose.predict.memory.job import JobPlan, Sharding
from diagnose.predict.memory.remedies import largest_micro_batch

LADDER = Path(__file__).parent / "ladder.csv"
ULTRASCALE, TORCHTITAN = "ultrascale_playbook_h100.csv", "torchtitan.csv"
_GPUS = {gpu.key: gpu for gpu in table()}
_DTYPES = {("fp32", "no"): "fp32", ("fp32", "bf16"): "bf16-mixed", ("bf16", "bf16"): "bf16"}
_TORCHTITAN_GPUS = {"model. 8 GPUs. Local batch size 2": 8, "model. 128 GPUs. Local batch size 2": 128}


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


def ladder_plan(row: dict[str, str]) -> JobPlan:
    """The job of one row of the ladder."""
    gpus = int(row["gpus"])
    return JobPlan(
        row["model"], NAMED_MODELS[row["model"]], _GPUS["H100-64GB-MN5"], gpus=gpus, nodes=max(1, gpus // 4),
        seq_len=int(row["seq_len"]), micro_batch=int(row["micro_batch"]),
        dtype=_DTYPES[row["model_precision"], row["mixed_precision"]],
        attention="eager" if row["attention"] == "eager" else "sdpa", liger=row["liger"] == "true",
        sharding=Sharding(dp=gpus),
    )  # fmt: skip


def ladder_rows() -> Iterator[Row]:
    """Every row of the ladder; memory is that of the process."""
    for row in _read(LADDER):
        plan, ran = ladder_plan(row), row["outcome"] == "ok"
        measured = float(row["memory_gb"]) if ran and row["memory_gb"] else None
        yield Row(f"{row['source']} {row['row']}", plan, measured, memory_ledger(plan).total_bytes / GIB, ran)


def ultrascale_plan(row: dict[str, str]) -> JobPlan:
    """The job of one row of the playbook's table: nanotron, sequences of 4,096 tokens."""
    name = f"ultrascale-{row['model']}"
    dp, tp, pp, zero = (int(row[key]) for key in ("dp", "tp", "pp", "zero"))
    return JobPlan(
        name, NAMED_MODELS[name], _GPUS["H100-SXM5-80GB"], gpus=int(row["gpus"]), nodes=int(row["nodes"]),
        seq_len=4096, micro_batch=int(row["micro_batch"]), accumulation=int(row["grad_accum"]),
        dtype="bf16-master-fp32-grads", attention="flash",
        sharding=Sharding(dp=dp, tp=tp, pp=pp, zero=zero, uneven_stages=True),
    )  # fmt: skip


def ultrascale_rows(path: Path) -> Iterator[Row]:
    """Every row that states memory; that of the first stage is what rank 0 logs."""
    for row in _read(path):
        if row["gpu_memory_gb"]:
            plan = ultrascale_plan(row)
            allocated = stage_ledgers(plan)[0].allocated_bytes / GIB
            yield Row(row["model"], plan, float(row["gpu_memory_gb"]), allocated)


def torchtitan_rows(path: Path) -> Iterator[Row]:
    """Llama 3.1 8B under FSDP without compile, of which the table states everything that the ledger needs."""
    for row in _read(path):
        gpus = next((count for text, count in _TORCHTITAN_GPUS.items() if text in row["section"]), None)
        if gpus and row["techniques"] == "FSDP":
            plan = JobPlan(
                "Llama-3.1-8B", NAMED_MODELS["Llama-3.1-8B"], _GPUS["H100-96GB-HBM2e"], gpus=gpus, nodes=gpus // 8,
                seq_len=8192, micro_batch=2, checkpointing="selective", sharding=Sharding(dp=gpus, zero=3),
            )  # fmt: skip
            what = f"Llama 3.1 8B, FSDP on {gpus} GPUs"
            yield Row(what, plan, float(row["memory_gib"]), memory_ledger(plan).reserved_bytes / GIB)


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def absolute_errors(rows: Sequence[Row]) -> list[float]:
    """Sizes of the errors, smallest first; shares of the measured memory."""
    return sorted(abs(row.error) for row in rows if row.error is not None)


def row_table(rows: Sequence[Row]) -> list[str]:
    """One line for each job: measured, predicted, and the largest micro-batch that the ledger admits."""
    lines = ["| row | job | ran | measured GiB | ledger GiB | error | largest micro-batch |", "|---" * 7 + "|"]
    seen = set()
    for row in rows:
        plan = row.plan
        job = (
            f"{plan.name}, {plan.gpus} GPU, {plan.dtype}, {plan.attention}{', Liger' * plan.liger}, {plan.micro_batch}"
        )
        if (job, row.measured_gib) not in seen:
            seen.add((job, row.measured_gib))
            measured = "-" if row.measured_gib is None else f"{row.measured_gib:.1f}"
            error = "-" if row.error is None else f"{100 * row.error:+.0f} %"
            cells = (row.what, job, "yes" if row.ran else "no", measured, f"{row.predicted_gib:.1f}", error)
            lines.append(f"| {' | '.join(cells)} | {largest_micro_batch(plan)} |")
    return lines


def group_table(rows: Sequence[Row]) -> list[str]:
    """Median and 90th percentile of the error by model, and by how the job is divided."""
    groups: list[tuple[str, Callable[[Row], object]]] = [
        ("all", lambda row: "rows"), ("model", lambda row: row.what), ("pp", lambda row: row.plan.sharding.pp),
        ("tp", lambda row: row.plan.sharding.tp), ("ZeRO", lambda row: row.plan.sharding.zero),
    ]  # fmt: skip
    lines = ["| group | rows | median error | 90th percentile | median, signed |", "|---" * 5 + "|"]
    for name, key in groups:
        for value in sorted({key(row) for row in rows}, key=lambda value: (len(str(value)), str(value))):
            chosen = [row for row in rows if key(row) == value]
            sizes = absolute_errors(chosen)
            signed = statistics.median(row.error for row in chosen if row.error is not None)
            cells = (f"{100 * statistics.median(sizes):.1f} %", f"{100 * sizes[len(sizes) * 9 // 10]:.0f} %")
            lines.append(f"| {name} {value} | {len(chosen)} | {' | '.join(cells)} | {100 * signed:+.1f} % |")
    return lines


def report(tables: Path | None, day: str) -> str:
    """The dated report."""
    lines = [
        f"# Memory ledger against measurements, {day}",
        "",
        "`python benchmarks/fit_memory.py --tables FOLDER`",
        "",
    ]
    lines += ["## The ladder, H100 64 GB", "", *row_table(list(ladder_rows())), ""]
    if tables and (tables / ULTRASCALE).is_file():
        lines += [
            "## Ultra-Scale Playbook, H100 80 GB",
            "",
            *group_table(list(ultrascale_rows(tables / ULTRASCALE))),
            "",
        ]
    if tables and (tables / TORCHTITAN).is_file():
        lines += ["## torchtitan, H100 96 GB", "", *row_table(list(torchtitan_rows(tables / TORCHTITAN))), ""]
    return "\n".join(lines)


def main() -> None:
    """Print the report, or write it."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tables", type=Path, help="folder of the public tables")
    options.add_argument("--write", type=Path, help="folder to write fit-memory-DATE.md to")
    chosen = options.parse_args()
    day = datetime.now(UTC).date().isoformat()
    text = report(chosen.tables, day)
    if chosen.write:
        (chosen.write / f"fit-memory-{day}.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
