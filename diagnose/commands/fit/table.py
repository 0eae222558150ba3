"""Predictions for a table of planned runs. Measured columns of the table are never read."""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from diagnose.commands.fit.boards import fewest_nodes, gpu_named
from diagnose.commands.fit.columns import holds_two, is_yes, known_cells, refuse_unknown
from diagnose.commands.fit.dtypes import computed_in, default_dtype, of_weights_and_autocast
from diagnose.commands.fit.features import features_of_cells
from diagnose.commands.fit.mfu_as import counted_flops_per_token, counted_peak_flops, refuse_impossible
from diagnose.commands.fit.stacks import StackRates, stack_of
from diagnose.commands.fit.step_time import predict_step
from diagnose.commands.fit.switches import effective
from diagnose.errors import UserError
from diagnose.formulas.model import ModelShape
from diagnose.hardware import Gpu
from diagnose.predict.memory.estimate import GIB, memory_estimate
from diagnose.predict.memory.job import MOST, JobPlan, Sharding
from diagnose.predict.memory.ledgers import ledgers
from diagnose.predict.memory.precision import PRECISIONS

Row = Mapping[str, str]
ShapeOf = Callable[[str], ModelShape]
_EXPECTED = "expected_tokens_per_s_per_gpu"  # on average over runs, of which some stall: choose by it
ADDED = (
    "predicted_tokens_per_s_per_gpu",
    "predicted_mfu_percent",
    "predicted_memory_gb",
    "fits",
    _EXPECTED,
    "predicted_step_s_low",
    "predicted_step_s_likely",
    "predicted_step_s_high",
    "predicted_memory_gb_low",
    "predicted_memory_gb_high",
    "because",
)
STATED = ("stated_mfu_percent", "stated_tflops_per_gpu")
NEEDED = ("model", "gpu", "gpus", "micro_batch")
_SEQ_LEN = 4096


def read_table(path: Path, defaults: Row | None = None, ignores_columns: bool = False) -> list[dict[str, str]]:
    """The rows of a CSV file.

    Args:
        path: of the file.
        defaults: by this program's names of columns, what empty and missing cells stand for.
        ignores_columns: whether columns without a known meaning are left alone instead of refused.

    Raises:
        UserError: it cannot be read, lacks a column that a prediction needs, or has one that is not known.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError("cannot read the table", where=path, why=str(error)) from error
    if not rows:
        raise UserError("the table has no rows", where=path)
    cells = [with_defaults(row, defaults or {}) for row in rows]
    if missing := [name for name in NEEDED if not any(row.get(name) for row in map(known_cells, cells))]:
        do = f"columns needed: {', '.join(NEEDED)}; docs/fit.md lists the others, and options fill empty cells"
        raise UserError(f"the table has no column {', '.join(missing)}", where=path, do=do)
    if not ignores_columns:
        refuse_unknown(rows[0], (*ADDED, *STATED))
    return cells


def with_defaults(row: Row, defaults: Row) -> dict[str, str]:
    """The row, with what is stated beside the table in cells that it leaves empty."""
    told = known_cells(row)
    return {**row, **{name: value for name, value in defaults.items() if not told.get(name)}}


def stack_for(row: Row, given: str | None) -> str:
    """The training stack of a row: its column, the user's, or the one that the row's columns suggest."""
    told = row.get("stack") or given or known_cells(row).get("stack")
    return told or ("nanotron" if row.get("tp") or row.get("pp") else "transformers")


def ledger_for(cells: Row, stack_name: str) -> str:
    """The ledger of whose code keeps the memory: a repository may have Megatron's kernels and a ledger of its own."""
    own = cells.get("source_repo", "").rpartition("/")[2].casefold()
    return next((name for name in ledgers() if own and name.endswith(own)), stack_name)


def plan_of(row: Row, stack_name: str, shape_of: ShapeOf) -> JobPlan:
    """The job of a row.

    Of accumulation and global batch one suffices, and if they contradict each other the global batch holds.

    Raises:
        UserError: a cell is missing or no number, or the job cannot be launched as stated.
    """
    cells, stack = known_cells(row), stack_of(stack_name)
    _check_cells(cells)
    gpus, gpu = _count(cells, "gpus"), gpu_named(_cell(cells, "gpu"))
    dtype, fp8 = _precision(cells, stack, gpu)
    model = _shape(_cell(cells, "model"), stack, shape_of)
    tp, pp, cp, ep = (_count(cells, name, 1) for name in ("tp", "pp", "cp", "ep"))
    dp, micro_batch = _count(cells, "dp", max(gpus // (tp * pp * cp), 1)), _count(cells, "micro_batch")
    seq_len = _count(cells, "seq_len", _SEQ_LEN)
    zero, nodes = _count(cells, "zero", 0, least=0), _count(cells, "nodes", fewest_nodes(gpus, gpu))
    uneven = stack.uneven_stages or bool(model.layers % pp)  # a run that was launched is cut somewhere
    replicas = nodes if cells.get("replicas") == "nodes" else _count(cells, "replicas", 1)
    sharding = Sharding(dp, tp, pp, zero, replicas, uneven_stages=uneven, cp=cp, ep=ep)
    stack.check(sharding)
    return JobPlan(
        name=cells["model"],
        model=_as_built(model, stack, pp, seq_len),
        gpu=gpu,
        gpus=gpus,
        nodes=nodes,
        seq_len=seq_len,
        micro_batch=micro_batch,
        accumulation=_accumulation(cells, dp * micro_batch),
        dtype=dtype,
        fp8=fp8,
        sharding=sharding,
        stack=ledger_for(cells, stack.name),
        **_choices(cells),
        **features_of_cells(cells, stack),
    )


def _shape(name: str, stack: StackRates, shape_of: ShapeOf) -> ModelShape:
    """The model of that name; a short name first means one of the stack's own source."""
    for known in (stack.model_prefix + name, name.replace(" ", "-")):
        try:
            return shape_of(known)
        except UserError:
            continue
    return shape_of(name)


def _precision(cells: Row, stack: StackRates, gpu: Gpu) -> tuple[str, bool]:
    """The dtype of a row and whether its products run in fp8, by whichever column states it."""
    default = default_dtype(stack, gpu)
    if dtype := cells.get("dtype"):
        told = (dtype, False) if dtype in PRECISIONS else computed_in(dtype, default)
    elif cells.get("model_precision") or cells.get("mixed_precision"):
        told = of_weights_and_autocast(cells.get("model_precision", ""), cells.get("mixed_precision", ""))
    else:
        told = computed_in(cells["precision"], default) if cells.get("precision") else (default, False)
    name, fp8 = told
    tf32 = name == "fp32" and is_yes(cells.get("tf32", ""))
    return ("tf32" if tf32 else name), fp8 or is_yes(cells.get("fp8", ""))


def _check_cells(cells: Row) -> None:
    """Refuse a row that states what is not predicted."""
    if is_yes(cells.get("offload", "")):
        raise UserError("offloading to the host is not predicted", where=f"offload={cells['offload']}")


def _cell(cells: Row, name: str) -> str:
    if not cells.get(name):
        raise UserError(f"the row states no {name}", do=f"fill its cell, or state it for all rows with --{name}")
    return cells[name]


def _as_built(model: ModelShape, stack: StackRates, pp: int, seq_len: int) -> ModelShape:
    """The model as built for the job: nanotron's pipelines untie the head, and learned positions match sequences."""
    positions = max(model.positions, seq_len) if model.positions else 0
    return replace(model, positions=positions, tied=model.tied and not (stack.uneven_stages and pp > 1))


def _choices(cells: Row) -> dict[str, Any]:
    """Fields of a plan that have a default if the table has no value."""
    given: dict[str, Any] = {
        name: cells[name] for name in ("optimizer", "attention", "checkpointing") if cells.get(name)
    }
    flags = {"liger": "liger", "compiled": "compile"}
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
    rows: Sequence[Row], stack_name: str | None, shape_of: ShapeOf, mfu_as: str | None = None
) -> Predictions:
    """The rows with their predictions; memory is that of tensors, in GiB, as torch's peak counts it.

    Args:
        rows: of the table.
        stack_name: the training stack of rows that do not name one; None lets their columns decide.
        shape_of: the model of a name.
        mfu_as: the project whose count MFU is, also for the throughput that the table states; None for the stack's own.
    """
    done = Predictions([], {})
    columns = ADDED if mfu_as is None else ADDED + STATED
    for line, row in enumerate(rows, 2):
        added: Mapping[str, str] = {}
        try:
            stack = stack_of(stack_for(row, stack_name)).counting_as(mfu_as)
            plan, notes = effective(plan_of(row, stack.name, shape_of), stack)
            added = _predicted(plan, stack, (*notes, *_remarks(row, plan)))
            added |= {} if mfu_as is None else _stated(plan, stack, row)
        except UserError as error:
            done.problems[line] = error
        done.rows.append({**row, **{name: added.get(name, "") for name in columns}})
    return done


def _predicted(plan: JobPlan, stack: StackRates, notes: Sequence[str]) -> dict[str, str]:
    """The columns `ADDED`. The range of the memory is that of the whole process, as a share of what tensors take."""
    step, memory = predict_step(plan, stack), memory_estimate(plan)
    span, fits, allocated = step.calibration, memory.fits, memory.allocated_bytes / GIB
    low, high = (allocated * end / fits.likely_bytes for end in (fits.low_bytes, fits.high_bytes))
    because = "; ".join([f"step {span.says}", f"memory {fits.because}", *notes])
    values = (
        f"{step.tokens_per_s_per_gpu:.1f}",
        f"{100 * step.mfu:.2f}",
        f"{allocated:.2f}",
        fits.answer,
        f"{step.expected_tokens_per_s / step.gpus:.1f}",
        *(f"{seconds:.4g}" for seconds in (span.low_s, step.step_s, span.high_s)),
        f"{low:.2f}",
        f"{high:.2f}",
        because,
    )
    return dict(zip(ADDED, values, strict=True))


def _remarks(row: Row, plan: JobPlan) -> Iterator[str]:
    """Remarks on what the prediction takes otherwise than the row states it."""
    cells = known_cells(row)
    if holds_two(row):
        yield "the first of the two runs that the row states"
    if _count(cells, "vp", 1) > 1:
        yield "interleaved stages are predicted as plain ones"
    if plan.dtype == "fp32" and plan.gpu.tf32_tflops:
        yield "fp32 with TF32 off (a column tf32 says if it is on)"


def _stated(plan: JobPlan, stack: StackRates, row: Row) -> dict[str, str]:
    """The columns `STATED`: the table's throughput in the stack's count; empty if the table has none."""
    try:
        tokens_per_s = float(known_cells(row).get("tokens_per_s_per_gpu", ""))
    except ValueError:
        return {}
    flops = counted_flops_per_token(plan, stack.mfu_as) * tokens_per_s
    share = flops / counted_peak_flops(plan, stack.mfu_as)
    refuse_impossible(share, stack.mfu_as)
    return dict(zip(STATED, (f"{100 * share:.3f}", f"{flops / 1e12:.2f}"), strict=True))


def as_csv(rows: Sequence[Mapping[str, str]]) -> bytes:
    """The rows as a CSV file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()
