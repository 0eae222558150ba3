"""Predictions for a table of planned runs. Measured columns of the table are never read."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from diagnose.commands.fit.boards import fewest_nodes, gpu_named
from diagnose.commands.fit.mfu_as import counted_flops_per_token, counted_peak_flops
from diagnose.commands.fit.stacks import StackRates, stack_of
from diagnose.commands.fit.step_time import predict_step
from diagnose.errors import UserError
from diagnose.formulas.model import ModelShape
from diagnose.predict.memory.estimate import GIB, MemoryEstimate
from diagnose.predict.memory.job import MOST, JobPlan, Sharding

ShapeOf = Callable[[str], ModelShape]
EstimateOf = Callable[[JobPlan], MemoryEstimate]
_EXPECTED = "expected_tokens_per_s_per_gpu"  # on average over runs, of which some stall: choose by it
ADDED = ("predicted_tokens_per_s_per_gpu", "predicted_mfu_percent", "predicted_memory_gb", "fits", _EXPECTED)
STATED = ("stated_mfu_percent", "stated_tflops_per_gpu")
NEEDED = ("model", "gpu", "gpus", "micro_batch")
_SEQ_LEN = 4096


def read_table(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file.

    Raises:
        UserError: it cannot be read, or lacks a column that a prediction needs.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError("cannot read the table", where=path, why=str(error)) from error
    if not rows:
        raise UserError("the table has no rows", where=path)
    if missing := [name for name in NEEDED if name not in known_cells(rows[0])]:
        do = f"columns needed: {', '.join(NEEDED)}; docs/fit.md lists the others"
        raise UserError(f"the table has no column {', '.join(missing)}", where=path, do=do)
    return rows


Row = Mapping[str, str]
_SAME = {
    "grad_accum": "accumulation",
    "global_batch_seqs": "global_batch",
    "n_gpus": "gpus",
    "seqlen_t": "seq_len",
    "microbatchsize": "micro_batch",
    "gradaccum": "accumulation",
    "globalbatchsize": "global_batch",
    "throughput_t_s_gpu": "tokens_per_s_per_gpu",
    "mbs": "micro_batch",
    "gbs": "global_batch",
    "sequence_length": "seq_len",
    "tokens_sec_gpu": "tokens_per_s_per_gpu",
}


def stack_for(row: Row, given: str | None) -> str:
    """The training stack of a row: its column, the user's, or the one that the row's columns suggest."""
    return row.get("stack") or given or ("nanotron" if row.get("tp") or row.get("pp") else "transformers")


def plan_of(row: Row, stack_name: str, shape_of: ShapeOf) -> JobPlan:
    """The job of a row.

    Of accumulation and global batch one suffices, and if they contradict each other the global batch holds.

    Raises:
        UserError: a cell is missing or no number, or the job cannot be launched as stated.
    """
    cells, stack = known_cells(row), stack_of(stack_name)
    gpus = _count(cells, "gpus")
    model = _shape(cells["model"], stack, shape_of)
    tp, pp = _count(cells, "tp", 1), _count(cells, "pp", 1)
    dp, micro_batch = _count(cells, "dp", max(gpus // (tp * pp), 1)), _count(cells, "micro_batch")
    seq_len = _count(cells, "seq_len", _SEQ_LEN)
    sharding = Sharding(dp, tp, pp, _count(cells, "zero", 0, least=0), uneven_stages=stack.uneven_stages)
    stack.check(sharding)
    return JobPlan(
        name=cells["model"],
        model=_as_built(model, stack, pp, seq_len),
        gpu=gpu_named(cells["gpu"]),
        gpus=gpus,
        nodes=_count(cells, "nodes", fewest_nodes(gpus)),
        seq_len=seq_len,
        micro_batch=micro_batch,
        accumulation=_accumulation(cells, dp * micro_batch),
        dtype=cells.get("dtype") or stack.dtype,
        sharding=sharding,
        stack=stack.name,
        **_choices(cells),
    )


def _shape(name: str, stack: StackRates, shape_of: ShapeOf) -> ModelShape:
    """The model of that name; a short name first means one of the stack's own source."""
    try:
        return shape_of(stack.model_prefix + name)
    except UserError:
        return shape_of(name)


def _as_built(model: ModelShape, stack: StackRates, pp: int, seq_len: int) -> ModelShape:
    """The model as built for the job: nanotron's pipelines untie the head, and learned positions match sequences."""
    positions = max(model.positions, seq_len) if model.positions else 0
    return replace(model, positions=positions, tied=model.tied and not (stack.uneven_stages and pp > 1))


def _choices(cells: Row) -> dict[str, Any]:
    """Fields of a plan that have a default if the table has no value."""
    given: dict[str, Any] = {
        name: cells[name] for name in ("optimizer", "attention", "checkpointing") if cells.get(name)
    }
    flags = {"liger": "liger", "compiled": "compile", "fp8": "fp8"}
    return given | {field: is_yes(cells.get(name, "")) for field, name in flags.items()}


def _accumulation(cells: Row, at_once: int) -> int:
    if not cells.get("global_batch"):
        return _count(cells, "accumulation", 1)
    global_batch = _count(cells, "global_batch")
    if global_batch % at_once:
        where = f"global batch {global_batch}, dp x micro-batch {at_once}"
        raise UserError("the global batch is no multiple of dp x micro-batch", where=where)
    return global_batch // at_once


def _count(cells: Row, name: str, default: int | None = None, least: int = 1) -> int:
    text = cells.get(name, "")
    if not text and default is not None:
        return default
    try:
        number = float(text)
        if number != int(number):
            raise ValueError
    except (ValueError, OverflowError):
        raise UserError(f"{name} must be a whole number", where=repr(text)) from None
    if not least <= number <= MOST:
        raise UserError(f"{name} must be from {least} to {MOST:,}", where=text)
    return int(number)


@dataclass(frozen=True)
class Predictions:
    """The predictions for a table.

    Attributes:
        rows: with the columns `ADDED` and, if MFU is counted as a project does, `STATED`; they are empty if a row could
            not be predicted.
        problems: why, by line of the file.
    """

    rows: list[dict[str, str]]
    problems: dict[int, UserError]


def predictions(
    rows: Sequence[Row], stack_name: str | None, shape_of: ShapeOf, ledger_of: EstimateOf, mfu_as: str | None = None
) -> Predictions:
    """The rows with their predictions; memory is that of tensors, in GiB, as torch's peak counts it.

    Args:
        rows: of the table.
        stack_name: the training stack of rows that do not name one; None lets their columns decide.
        shape_of: the model of a name.
        ledger_of: the memory of a plan on its fullest GPU.
        mfu_as: the project whose count MFU is, also for the throughput that the table states; None for the stack's own.
    """
    done = Predictions([], {})
    columns = ADDED if mfu_as is None else ADDED + STATED
    for line, row in enumerate(rows, 2):
        added: Mapping[str, str] = {}
        try:
            stack = stack_of(stack_for(row, stack_name)).counting_as(mfu_as)
            plan = plan_of(row, stack.name, shape_of)
            added = _predicted(plan, stack, ledger_of) | ({} if mfu_as is None else _stated(plan, stack, row))
        except UserError as error:
            done.problems[line] = error
        done.rows.append({**row, **{name: added.get(name, "") for name in columns}})
    return done


def _predicted(plan: JobPlan, stack: StackRates, ledger_of: EstimateOf) -> dict[str, str]:
    """The columns `ADDED`."""
    step, estimate = predict_step(plan, stack), ledger_of(plan)
    memory, fits = f"{estimate.allocated_bytes / GIB:.2f}", estimate.fits.answer
    expected = f"{step.expected_tokens_per_s / step.gpus:.1f}"
    values = (f"{step.tokens_per_s_per_gpu:.1f}", f"{100 * step.mfu:.2f}", memory, fits, expected)
    return dict(zip(ADDED, values, strict=True))


def _stated(plan: JobPlan, stack: StackRates, row: Row) -> dict[str, str]:
    """The columns `STATED`: the table's throughput in the stack's count; empty if the table has none."""
    try:
        tokens_per_s = float(known_cells(row).get("tokens_per_s_per_gpu", ""))
    except ValueError:
        return {}
    flops = counted_flops_per_token(plan, stack.mfu_as) * tokens_per_s
    share = flops / counted_peak_flops(plan, stack.mfu_as)
    return dict(zip(STATED, (f"{100 * share:.3f}", f"{flops / 1e12:.2f}"), strict=True))


def as_csv(rows: Sequence[Mapping[str, str]]) -> bytes:
    """The rows as a CSV file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


# The columns of a table of runs, by the names of this program and by those of tables that others published.


"""Names of the tables of the Ultra-Scale Playbook, llm-foundry and Megatron-Bridge."""


_SHARDED = {"FULL_SHARD": "3", "SHARD_GRAD_OP": "2"}
_YES = ("true", "yes", "1")


def known_cells(row: Row) -> dict[str, str]:
    """The cells of a row by the names of this program, without blanks around them.

    Some columns of llm-foundry differ: `sharding_strategy` is a ZeRO stage, `precision` a number type or fp8, and
    `activation_checkpointing` full or none.
    """
    cells = {_SAME.get(name, name): (value or "").strip() for name, value in row.items() if isinstance(value, str)}
    told = {}
    if cells.get("sharding_strategy") in _SHARDED:
        told["zero"] = _SHARDED[cells["sharding_strategy"]]
    if "activation_checkpointing" in cells:
        told["checkpointing"] = "full" if is_yes(cells["activation_checkpointing"]) else "none"
    if "fp8" in cells.get("precision", ""):
        told["fp8"] = "yes"
    return told | cells


def is_yes(cell: str) -> bool:
    """Whether a cell means yes."""
    return cell.casefold() in _YES
