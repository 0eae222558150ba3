"""A CSV with a run in each row: the jobs in it, each the runs of one job at several numbers of GPUs.

Roles of the columns of a table of runs, by their names.
"""

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from diagnose.decoding import finite
from diagnose.errors import UserError, WrongUsage, printable
from diagnose.predict.job_run import MOST_GPUS, JobRun, JobRuns
from diagnose.trace.source import opened

LARGEST_TABLE_BYTES = 64 << 20
_LARGEST = 1e18
_DO = (
    "name a column gpus and one of tokens_per_s_per_gpu, tokens_per_s, step_time_s, step_time_ms"
    " (docs/scaling.md lists them)"
)
_ONE_MICRO_BATCH = "no column tells the accumulation: a step is taken as one micro-batch"


@dataclass(frozen=True)
class RowChoice:
    """The choice of rows of a table.

    Attributes:
        where: texts that columns must hold, by name.
        by: columns that distinguish jobs; empty: all that hold a setting.
    """

    where: Mapping[str, str]
    by: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Row:
    cells: Sequence[str]
    run: JobRun


def is_table_of_runs(path: Path) -> bool:
    """Whether the header has a column of GPUs."""
    return "gpus" in columns_of(_rows(path)[0]).at


def read_table(path: Path, choice: RowChoice) -> tuple[list[JobRuns], list[str]]:
    """The jobs of the table, most sizes first, and notes on omissions and assumptions, one sentence each.

    The rows of a job differ only in their GPUs and measurements. Rows with the same work of a GPU belong together;
    of the rest, rows with the same work of the whole job.

    Raises:
        UserError: it cannot be read, lacks a column, or no row has a rate.
    """
    header, *rows = _rows(path)
    columns = columns_of(header)
    _check(path, columns, choice)
    chosen = [row for row in rows if all(_cell(row, columns.named[n]) == v for n, v in choice.where.items())]
    read = [_Row(row, run) for row in chosen if (run := _run(row, columns, path)) is not None]
    if not read:
        raise UserError(
            "no row of the table has GPUs and a rate",
            where=path,
            why=f"{len(chosen)} of {len(rows)} rows are chosen" if choice.where else f"{len(rows)} rows",
            do=_DO,
        )
    notes = _left_out(len(chosen) - len(read), "no rate or step time")
    if "accumulation" not in columns.at and _counts_batches(columns):
        notes.append(_ONE_MICRO_BATCH)
    found = _jobs(read, columns, choice)
    alone = len(read) - sum(len(group) for group in found)
    notes += _left_out(alone, "no other with the same settings at another number of GPUs")
    return _named(found, columns, choice, path.name), notes


def _left_out(rows: int, lacks: str) -> list[str]:
    if rows == 1:
        return [f"1 row has {lacks} and is left out"]
    return [f"{rows} rows have {lacks} and are left out"] if rows else []


def _rows(path: Path) -> list[list[str]]:
    try:
        if path.stat().st_size > LARGEST_TABLE_BYTES:
            raise UserError("the table is too large", where=path, why=f"over {LARGEST_TABLE_BYTES >> 20} MiB")
        with opened(path, "the table") as file:
            text = file.read().decode("utf-8-sig", "replace")
        first = text.partition("\n")[0]
        delimiter = max(",;\t", key=first.count)
        rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if any(row)]
    except (OSError, csv.Error) as error:
        raise UserError("cannot read the table", where=path, why=str(error)) from error
    if delimiter == ";":
        rows = [[cell.replace(",", ".") for cell in row] for row in rows]
    return rows or [[]]


_TIMES_S = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_NAMES = {
    "gpus": "gpus n_gpus num_gpus ngpus gpu_count world_size n_devices devices",
    "nodes": "nodes n_nodes num_nodes",
    "rate_per_gpu": "tokens_per_s_per_gpu tokens_per_sec_per_gpu tokens_per_second_per_gpu tokens_sec_gpu tokens_s_gpu "
    "tok_s_per_gpu tok_s_gpu tps_gpu tps_per_gpu throughput_t_s_gpu",
    "rate": "tokens_per_s tokens_per_sec tokens_per_second tokens_s tok_s tps throughput_t_s",
    "step": "step_time step_s step_ms time_per_step iteration_time iter_time",
    "tokens": "tokens_per_step global_tokens_per_step global_batch_tokens globalbatchsize_t",
    "tokens_per_gpu": "tokens_per_step_per_gpu",
    "global_batch": "global_batch_size global_batch globalbatchsize gbs global_batch_seqs",
    "seq_len": "seq_len seqlen seqlen_t sequence_length max_seq_len",
    "micro_batch": "micro_batch micro_batch_size microbatchsize mbs per_device_train_batch_size batch_size",
    "accumulation": "grad_accum gradaccum accumulation accumulation_steps gradient_accumulation_steps ga",
    "data_parallel": "dp data_parallel data_parallel_size",
    "power": "power_w gpu_power_w",
}
_ROLE_OF = {name: role for role, names in _NAMES.items() for name in names.split()}
_NO_SETTING = re.compile(
    r"mfu|hfu|flop|memory|throughput|loss|seed|times_drawn|outcome|status|notes?\Z|date|source_(repo|path)|_(gb|gib)\Z"
)


@dataclass(frozen=True)
class Columns:
    """Positions in a row.

    Attributes:
        at: by role.
        step_unit_s: seconds of a unit of the column of step times.
        settings: name and position of columns that distinguish jobs: neither a role nor a measurement.
        named: position of every column, by its name as it stands in the file.
    """

    at: Mapping[str, int]
    step_unit_s: float
    settings: Mapping[str, int]
    named: Mapping[str, int]


def columns_of(names: Sequence[str]) -> Columns:
    """The first column of each role, and the settings."""
    at: dict[str, int] = {}
    settings: dict[str, int] = {}
    unit_s = 1.0
    for position, name in enumerate(names):
        words = re.sub(r"[^a-z0-9]+", "_", name.strip().lower()).strip("_")
        base, _, last = words.rpartition("_")
        role = _ROLE_OF.get(words)
        if role is None and last in _TIMES_S and _ROLE_OF.get(base) == "step":
            role = "step"
        if role == "step" and role not in at:
            unit_s = _TIMES_S.get(last, 1.0)
        if role is None and words and not _NO_SETTING.search(words):
            settings[name.strip()] = position
        elif role is not None:
            at.setdefault(role, position)
    return Columns(at, unit_s, settings, {name.strip(): i for i, name in enumerate(names)})


def _check(path: Path, columns: Columns, choice: RowChoice) -> None:
    if "gpus" not in columns.at or not {"rate_per_gpu", "rate", "step"} & set(columns.at):
        listed = ", ".join(printable(name)[:40] for name in list(columns.named)[:20]) or "none"
        raise UserError("the table lacks a column", where=path, why=f"columns: {listed}", do=_DO)
    for name in (*choice.where, *choice.by):
        if name not in columns.named:
            listed = ", ".join(printable(known)[:40] for known in columns.named)
            raise WrongUsage(f"no column {name!r} in the table", where=path, do=f"choose of: {listed[:400]}")


def _cell(row: Sequence[str], at: int) -> str:
    return row[at].strip() if at < len(row) else ""


def _number(row: Sequence[str], columns: Columns, role: str) -> float | None:
    """The cell as a positive number; None if there is none."""
    if role not in columns.at:
        return None
    try:
        return finite(float(_cell(row, columns.at[role]).replace(",", "")), 1e-12, _LARGEST)
    except ValueError:
        return None


def _run(row: Sequence[str], columns: Columns, path: Path) -> JobRun | None:
    """The run of a row; None if it has no number of GPUs, or neither a rate nor a step time."""
    number = {role: _number(row, columns, role) for role in columns.at}
    gpus, per_gpu, rate, step = (number.get(role) for role in ("gpus", "rate_per_gpu", "rate", "step"))
    if not gpus or gpus != int(gpus) or gpus > MOST_GPUS or not (per_gpu or rate or step):
        return None
    nodes = number.get("nodes")
    run = JobRun(
        path.name,
        int(gpus),
        nodes=int(nodes) if nodes and nodes == int(nodes) else None,
        step_s=step * columns.step_unit_s if step else None,
        tokens_per_step=_tokens_per_step(number, gpus),
        samples_per_step=_samples_per_step(number, gpus),
        tokens_per_s=per_gpu * gpus if per_gpu else rate,
        power_w=number.get("power"),
    )
    return run.completed()


def _tokens_per_step(number: Mapping[str, float | None], gpus: float) -> float | None:
    """Tokens per step of the whole job: as stated, else by its sequences."""
    if stated := number.get("tokens"):
        return stated
    if per_gpu := number.get("tokens_per_gpu"):
        return per_gpu * gpus
    length, samples = number.get("seq_len"), _samples_per_step(number, gpus)
    return length * samples if length and samples else None


def _samples_per_step(number: Mapping[str, float | None], gpus: float) -> float | None:
    """Sequences of a step of the whole job: its global batch, else its micro-batches."""
    micro = number.get("micro_batch")
    if batch := number.get("global_batch"):
        return batch
    return micro * (number.get("accumulation") or 1.0) * (number.get("data_parallel") or gpus) if micro else None


def _counts_batches(columns: Columns) -> bool:
    return "micro_batch" in columns.at and not {"tokens", "tokens_per_gpu", "global_batch"} & set(columns.at)


def _settings(columns: Columns, choice: RowChoice) -> dict[str, int]:
    return {by: columns.named[by] for by in choice.by} if choice.by else dict(columns.settings)


def _jobs(rows: Sequence[_Row], columns: Columns, choice: RowChoice) -> list[list[_Row]]:
    """The groups of rows with two sizes or more, most sizes first; if no group has, single rows."""
    settings = _settings(columns, choice)

    def same(roles: Sequence[str]) -> Callable[[_Row], tuple[object, ...]]:
        at = [*settings.values(), *(columns.at[role] for role in roles if role in columns.at and not choice.by)]
        return lambda row: tuple(_cell(row.cells, position) for position in at)

    by_gpu = _grouped(rows, same(("seq_len", "micro_batch", "accumulation", "tokens_per_gpu")))
    alone = [row for group in by_gpu if _sizes(group) < 2 for row in group]
    by_job = _grouped(alone, same(("seq_len", "global_batch", "tokens")))
    found = [group for group in (*by_gpu, *by_job) if _sizes(group) > 1]
    return sorted(found or by_job, key=_sizes, reverse=True)


def _named(groups: Sequence[Sequence[_Row]], columns: Columns, choice: RowChoice, file: str) -> list[JobRuns]:
    """Each group with the settings that distinguish it from the others as its name."""
    shown = _settings(columns, choice)
    shown |= {role: columns.at[role] for role in ("micro_batch", "accumulation") if role in columns.at}
    differing = {by: at for by, at in shown.items() if len({_cell(group[0].cells, at) for group in groups}) > 1}
    jobs = []
    for group in groups:
        alike = {by: {_cell(row.cells, at) for row in group} for by, at in differing.items()}
        text = ", ".join(f"{by}={value}" for by, (value, *others) in alike.items() if value and not others)
        runs = tuple(sorted((row.run for row in group), key=lambda run: run.gpus))
        jobs.append(JobRuns(printable(text or file)[:300], runs))
    return jobs


def _grouped(rows: Sequence[_Row], key: Callable[[_Row], tuple[object, ...]]) -> list[list[_Row]]:
    groups: dict[tuple[object, ...], list[_Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return list(groups.values())


def _sizes(group: Sequence[_Row]) -> int:
    return len({row.run.gpus for row in group})
