"""`diagnose fit`: does a job fit its GPUs, how fast will it be, and how to divide it, before it runs."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard

import click

from diagnose.cli.command import Command, Option, refuse_beyond
from diagnose.cli.forms import json_option, out_option
from diagnose.cli.giving import Forms, give
from diagnose.cli.numbers import POSITIVE, mfu_as_option
from diagnose.cli.whole_file import whole_file
from diagnose.commands.fit.answer import answer_of
from diagnose.commands.fit.boards import fewest_nodes, gpu_named
from diagnose.commands.fit.forecast import Forecast, best_forecast, forecast
from diagnose.commands.fit.models import longest_usual, model_from, with_places
from diagnose.commands.fit.stacks import StackRates, stack_of
from diagnose.commands.fit.table import as_csv, predictions, read_table
from diagnose.commands.fit.text import render
from diagnose.errors import UserError, WrongUsage, printable
from diagnose.formulas.model import ModelShape
from diagnose.predict.memory.estimate import memory_estimate
from diagnose.predict.memory.job import ATTENTIONS, CHECKPOINTINGS, MOST, JobPlan, Sharding
from diagnose.predict.memory.remedies import largest_micro_batch

_COUNT = click.IntRange(1, MOST)
_PROBLEMS = 5  # rows that cannot be predicted and are reported
_SEQUENCES = 256  # of a global batch that nobody states
_FSDP = {"full-shard": 3, "shard-grad-op": 2}
_OF_TABLE = ("table", "out", "stack", "mfu_as")
_DIVIDE = "leave it out, or state the division (--dp, --tp, --pp)"
_SHARDING = ("dp", "tp", "pp", "zero", "fsdp")


@click.command(
    cls=Command, epilog="Example:  diagnose fit --model llama-3.1-8b --gpu H100 --gpus 16 --global-batch 256"
)
@click.option(
    "--model", metavar="NAME", help="The model: name, Hugging Face repository, short form (8b), or a config.json."
)
@click.option("--gpu", metavar="NAME", help="The GPU, one of `diagnose hardware`.")
@click.option("--gpus", type=_COUNT, help="Total GPUs (default: what the parallelism takes, else 1).")
@click.option("--nodes", type=_COUNT, help="Machines (default: as many as needed with at most eight GPUs in each).")
@click.option("--seq-len", type=_COUNT, help="Tokens of a sequence (default: 2048, or the model's maximum if less).")
@click.option("--micro-batch", type=_COUNT, help="Sequences that one GPU processes at once.")
@click.option("--accumulation", type=_COUNT, help="Micro-batches in an optimizer step.")
@click.option("--global-batch", type=_COUNT, help="Sequences in an optimizer step, over all GPUs.")
@click.option(
    "--dtype", help="Precision: bf16, bf16-mixed, fp32, tf32, ... (default: that of the stack, mostly bf16-mixed)."
)
@click.option("--optimizer", default="adamw", show_default=True, help="adamw, adamw-8bit, lion, adafactor, ...")
@click.option("--attn", type=click.Choice(ATTENTIONS), default="sdpa", show_default=True, help="Attention kernels.")
@click.option(
    "--checkpointing",
    type=click.Choice(CHECKPOINTINGS),
    default="none",
    show_default=True,
    help="Activations that are recomputed in the backward pass.",
)
@click.option("--liger", is_flag=True, help="Use Liger kernels.")
@click.option("--compile", "compiled", is_flag=True, help="Use torch.compile.")
@click.option("--fp8", is_flag=True, help="Run the blocks' matrix products in fp8.")
@click.option("--dp", type=_COUNT, help="Data-parallel ranks.")
@click.option("--tp", type=_COUNT, help="Tensor-parallel ranks.")
@click.option("--pp", type=_COUNT, help="Pipeline stages.")
@click.option(
    "--zero",
    cls=Option,
    idle_with={"fsdp": "--fsdp is a ZeRO stage by another name"},
    type=click.IntRange(0, 3),
    help="ZeRO stage: what the data-parallel ranks shard.",
)
@click.option("--fsdp", type=click.Choice(tuple(_FSDP)), help="Same as ZeRO stage 3 or 2.")
@click.option(
    "--stack",
    metavar="NAME",
    help="Use the published rates of this framework: transformers, llm-foundry, torchtitan, megatron or nanotron.",
)
@click.option(
    "--calibrate",
    type=click.Path(path_type=Path),
    help="JSON of a diagnosed run, to use its rates instead of the stack's.",
)
@click.option(
    "--network-gbs", type=POSITIVE, help="Bandwidth that collectives reach on a node's network, GB/s in one direction."
)
@mfu_as_option
@json_option("the forecast")
@click.option("--table", type=click.Path(path_type=Path), help="Predict each row of a CSV file instead; needs --out.")
@out_option("Where to write the table with predictions.", needs="table", because="a forecast is printed")
def fit(table: Path | None, out: Path | None, **given: Any) -> None:
    """Estimate, before the run, whether a job fits, how fast it is, and how to split it.

    The answer comes before the job runs, from sizes and published runs alone. docs/fit.md says how far to trust it.

    Without --dp, --tp, --pp, --zero or --fsdp every way to divide the job is tried, and the best are ranked.
    """
    if table is not None:
        refuse_beyond(_OF_TABLE, "has no effect with --table: state it in a column of the table.")
        _predict_table(table, out, given["stack"], given["mfu_as"])
        return
    for name in ("model", "gpu"):
        if given[name] is None:
            raise WrongUsage(f"--{name} is missing", do="diagnose fit --model llama-3.1-8b --gpu H100 --gpus 8")
    made = forecast_of(given)
    give(answer_of(made), Forms(text=partial(render, made)), given)


def _predict_table(table: Path, out: Path | None, stack: str | None, mfu_as: str | None) -> None:
    if out is None:
        raise WrongUsage("--out is missing", why="--table writes the rows with their predictions to a file of its own")
    if stack is not None:
        stack_of(stack)
    made = predictions(read_table(table), stack, lambda name: model_from(name)[1], memory_estimate, mfu_as)
    if len(made.problems) == len(made.rows):
        line, first = next(iter(made.problems.items()))
        raise UserError(
            "no row of the table can be predicted", where=table, why=f"line {line}: {first.what}", do=first.do
        )
    try:
        with whole_file(out) as file:
            file.write(as_csv(made.rows))
    except OSError as error:
        raise UserError("cannot write the table", where=out, why=error.strerror or str(error)) from error
    for line, problem in list(made.problems.items())[:_PROBLEMS]:
        click.echo(f"line {line} is not predicted: {printable(' '.join(problem.message.split()))}", err=True)
    left = f", {len(made.problems)} of them without a prediction" if made.problems else ""
    click.echo(f"wrote {len(made.rows)} rows to {printable(str(out))}{left}", err=True)


def forecast_of(given: dict[str, Any], found: Callable[[str], tuple[str, ModelShape]] = model_from) -> Forecast:
    """Forecast of the given plan, or of the best one if no division is given; `found` returns the model's shape."""
    divided = any(given[name] is not None for name in _SHARDING)
    gpus = given["gpus"] or (given["dp"] or 1) * (given["tp"] or 1) * (given["pp"] or 1)
    stack = _stack(given)
    sharding = _sharding(given, gpus, stack) if divided else Sharding(dp=gpus, uneven_stages=stack.uneven_stages)
    plan = _plan(given, found(given["model"]), gpus, sharding, stack)
    if given["network_gbs"] is not None and plan.nodes == 1:
        raise WrongUsage("--network-gbs has no effect on one node", do="leave it out, or state --nodes")
    if divided or gpus == 1:
        _check_batch(plan, given)
        return forecast(_filled(plan, given), stack)
    for name in ("micro_batch", "accumulation"):
        if given[name] is not None and given["global_batch"] is not None:
            option = f"--{name.replace('_', '-')}"
            raise WrongUsage(f"{option} has no effect with --global-batch where the division is searched", do=_DIVIDE)
    return best_forecast(plan, stack, given["global_batch"] or _global_batch(given, gpus))


def _stack(given: dict[str, Any]) -> StackRates:
    """The training stack, with the network that the user states in place of the measured one."""
    stack = stack_of(given["stack"] or ("nanotron" if given["tp"] or given["pp"] else "transformers"))
    if given["calibrate"] is not None:
        stack = calibrated(stack, given["calibrate"])
    stack = stack.counting_as(given["mfu_as"])
    return stack.with_rates({"node_gbs": given["network_gbs"]}) if given["network_gbs"] else stack


def _plan(
    given: dict[str, Any], of: tuple[str, ModelShape], gpus: int, sharding: Sharding, stack: StackRates
) -> JobPlan:
    name, model = of
    seq_len = given["seq_len"] or longest_usual(model)
    return JobPlan(
        name=name,
        model=with_places(model, seq_len, stack),
        gpu=gpu_named(given["gpu"]),
        gpus=gpus,
        nodes=given["nodes"] or fewest_nodes(gpus),
        seq_len=seq_len,
        micro_batch=given["micro_batch"] or 1,
        accumulation=given["accumulation"] or 1,
        dtype=given["dtype"] or stack.dtype,
        optimizer=given["optimizer"],
        attention=given["attn"],
        checkpointing=given["checkpointing"],
        liger=given["liger"],
        compiled=given["compiled"],
        fp8=given["fp8"],
        sharding=sharding,
    )


def _filled(plan: JobPlan, given: dict[str, Any]) -> JobPlan:
    """The plan with the open micro-batch (the largest that fits) and accumulation (by the global batch) filled in."""
    if given["micro_batch"] is None:
        plan = replace(plan, micro_batch=_micro_batch(plan, given))
    at_once = plan.sharding.dp * plan.micro_batch
    wanted = given["global_batch"]
    if wanted is None or given["accumulation"] is not None:
        return plan
    if wanted % at_once:
        where = f"global batch {wanted}, dp x micro-batch = {at_once}"
        raise WrongUsage("the global batch cannot be reached", where=where, do=f"use a multiple of {at_once}")
    return replace(plan, accumulation=wanted // at_once)


def _check_batch(plan: JobPlan, given: dict[str, Any]) -> None:
    """Refuse a global batch that the stated parts do not make.

    Raises:
        WrongUsage: it is no multiple of their product, or not the product if both are stated.
    """
    wanted, dp = given["global_batch"], plan.sharding.dp
    if wanted is None or given["accumulation"] is None:
        return
    parts = dp * given["accumulation"] * (given["micro_batch"] or 1)
    if wanted % parts or (given["micro_batch"] is not None and wanted != parts):
        names = "dp x accumulation" + " x micro-batch" * (given["micro_batch"] is not None)
        where = f"global batch {wanted}, {names} = {parts}"
        raise WrongUsage("the global batch is not what its parts make", where=where, do="leave one of them out")


def _micro_batch(plan: JobPlan, given: dict[str, Any]) -> int:
    """The micro-batch that reaches the global batch with the stated accumulation, else the largest that fits.

    If the global batch is given and the accumulation is open, it divides a rank's share of the batch.
    """
    global_batch = given["global_batch"]
    if global_batch is not None and given["accumulation"] is not None:
        return int(global_batch) // (plan.sharding.dp * plan.accumulation)
    largest = max(largest_micro_batch(plan), 1)
    if global_batch is None or global_batch % plan.sharding.dp:
        return largest
    share = global_batch // plan.sharding.dp
    return max(size for size in range(1, min(largest, share) + 1) if share % size == 0)


def _sharding(given: dict[str, Any], gpus: int, stack: StackRates) -> Sharding:
    """The division that the user gave; data parallelism takes the ranks that tensor and pipeline parallelism leave."""
    tp, pp = given["tp"] or 1, given["pp"] or 1
    zero = given["zero"] if given["zero"] is not None else _FSDP.get(given["fsdp"] or "", 0)
    dp = given["dp"] or max(gpus // (tp * pp), 1)
    sharding = Sharding(dp, tp, pp, zero, uneven_stages=stack.uneven_stages)
    stack.check(sharding)
    return sharding


def _global_batch(given: dict[str, Any], gpus: int) -> int:
    """The global batch of a search without a stated one: micro-batch and accumulation on all GPUs, or 256 and more."""
    if given["micro_batch"] or given["accumulation"]:
        return gpus * (given["micro_batch"] or 1) * (given["accumulation"] or 1)
    return -(-_SEQUENCES // gpus) * gpus


# Rates that a diagnosed run achieved, in place of those of a training stack.

_HALF = ("bf16", "fp16")
_LARGEST_BYTES = 1 << 28
_CAUSAL_SHARE = 0.5  # of the FLOPs that a diagnosis counts for attention, what a causal mask leaves


def calibrated(stack: StackRates, path: Path) -> StackRates:
    """The stack with the rates that the run reached: matrix products, attention, and the network between its nodes.

    Rates that the run lacks stay the stack's own, and the source lists which is which.

    Args:
        stack: of the run.
        path: the output of `diagnose analyze --json` for it.

    Raises:
        UserError: the file is no diagnosis, or has no rate.
    """
    document = _read(path)
    rates = _products(document) | _network(document)
    if not rates:
        why = "its kernels have no FLOPs, and it has no collective between nodes"
        raise UserError("the run has no achieved rate", where=path, why=why, do="capture it with shapes recorded")
    source = f"{', '.join(rates)} of {path.name}; the rest {stack.source}"
    return replace(stack.with_rates(rates), source=source)


def _read(path: Path) -> Mapping[str, Any]:
    do = "pass what `diagnose analyze RUN --json` printed"
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise UserError("too large for a diagnosis", where=path, do=do)
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError("cannot be read as a diagnosis", where=path, why=str(error), do=do) from error
    if not isinstance(document, dict) or not isinstance(document.get("roofline"), list):
        raise UserError("not a diagnosis", where=path, do=do)
    return document


def _products(document: Mapping[str, Any]) -> dict[str, float]:
    """Rates as shares of the dense half-precision peak; no width slows them, since the run has the job's sizes."""
    peaks = {each.get("precision"): each.get("flops_per_s") for each in _listed(document.get("roofs"), "peaks")}
    peak = next((peaks[name] for name in _HALF if _is_rate(peaks.get(name))), None)
    rates: dict[str, float] = {}
    if peak and (matrix := _flops_per_s(document["roofline"], "gemm")):
        rates |= {"matrix_share": min(matrix / peak, 1.0), "matrix_half_width": 0.0}
    if peak and (attention := _flops_per_s(document["roofline"], "attention")):
        rates["attention_share"] = min(_CAUSAL_SHARE * attention / peak, 1.0)
    return rates


def _flops_per_s(entries: Sequence[Any], family: str) -> float | None:
    """FLOP/s of the family's kernels in half precision whose FLOPs are known; None if there are none."""
    known = [
        (entry["flops"], entry["tflops"] * 1e12)
        for entry in entries
        if isinstance(entry, dict) and entry.get("family") == family and entry.get("precision") in _HALF
        if _is_rate(entry.get("flops")) and _is_rate(entry.get("tflops"))
    ]
    return sum(flops for flops, _ in known) / sum(flops / rate for flops, rate in known) if known else None


def _network(document: Mapping[str, Any]) -> dict[str, float]:
    """Bandwidth of a node's network in a run over several nodes, which is the slowest link there; else empty."""
    facts = {each.get("name"): each.get("value") for each in _listed(document, "facts")}
    nodes, rate = facts.get("nodes"), facts.get("bus_bytes_per_s")
    return {"node_gbs": rate / 1e9} if _is_rate(nodes) and _is_rate(rate) and nodes > 1 else {}


def _listed(holder: object, name: str) -> list[Mapping[str, Any]]:
    entries = holder.get(name) if isinstance(holder, dict) else None
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _is_rate(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
