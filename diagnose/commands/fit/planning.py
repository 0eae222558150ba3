"""The job that a command line describes: what it states stays, and the rest is taken from the stack or searched."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from diagnose.commands.fit.boards import fewest_nodes, gpu_named
from diagnose.commands.fit.diagnosed_rates import calibrated
from diagnose.commands.fit.dtypes import check_dtype, default_dtype, stated_dtype
from diagnose.commands.fit.features import features_of
from diagnose.commands.fit.forecast import Forecast, best_forecast, best_ranked, forecast
from diagnose.commands.fit.mfu_as import refuse_impossible
from diagnose.commands.fit.models import longest_usual, model_from, with_places
from diagnose.commands.fit.search import Stated
from diagnose.commands.fit.stacks import StackRates, stack_of
from diagnose.commands.fit.step_time import PredictedStep, predict_step
from diagnose.commands.fit.switches import SWITCHES, check, with_defaults
from diagnose.errors import UserError, WrongUsage
from diagnose.formulas.model import ModelShape
from diagnose.predict.memory.estimate import memory_estimate
from diagnose.predict.memory.job import JobPlan, Sharding
from diagnose.predict.memory.remedies import largest_micro_batch

FSDP = {"full-shard": 3, "shard-grad-op": 2}
"""ZeRO stages by FSDP's names."""
_SHARDING = ("dp", "tp", "pp", "zero", "fsdp")
_SHARED = ("cp", "ep")  # of a search, too, what is stated of these stays
_OPTION_OF = {"attention": "attn"}
Given = Mapping[str, Any]


@dataclass(frozen=True)
class Planned:
    """A job that the options describe; its division is searched unless they state one, or there is one GPU."""

    plan: JobPlan
    stack: StackRates
    stated: Stated
    is_searched: bool


def planned(given: Given, found: Callable[[str], tuple[str, ModelShape]] = model_from) -> Planned:
    """The job of the options; `found` returns the model's shape.

    Raises:
        UserError: there is no such job.
    """
    divided = any(given[name] is not None for name in _SHARDING)
    cp = given.get("cp") or 1
    gpus = given["gpus"] or (given["dp"] or 1) * (given["tp"] or 1) * (given["pp"] or 1) * cp
    stack, stated = _stack(given), _stated(given)
    sharding = _sharding(given if divided else {name: given.get(name) for name in _SHARED}, gpus, stack)
    plan = with_defaults(_plan(given, found(given["model"]), gpus, sharding, stack), stack, stated.switches)
    check_dtype(plan)
    check(plan, stack)
    if given["network_gbs"] is not None and plan.nodes == 1:
        raise WrongUsage("--network-gbs has no effect on one node", do="leave it out, or state --nodes")
    if not (divided or gpus == 1):
        return Planned(plan, stack, stated, True)
    _check_batch(plan, given)
    return Planned(_filled(plan, given), stack, stated, False)


def forecast_of(given: Given, found: Callable[[str], tuple[str, ModelShape]] = model_from) -> Forecast:
    """Forecast of the given plan, or of the best one if no division is given; `found` returns the model's shape."""
    job = planned(given, found)
    made = (best_forecast if job.is_searched else forecast)(job.plan, job.stack, job.stated)
    if given["mfu_as"] is not None:
        refuse_impossible(made.step.mfu, given["mfu_as"])
    return replace(made, fixed=_fixed(given, job.plan))


def best_step(given: Given, found: Callable[[str], tuple[str, ModelShape]] = model_from) -> PredictedStep:
    """The step of the given plan, or of the best one: what `forecast_of` predicts, without all that is beside it.

    Raises:
        UserError: it does not fit, or there is no such job.
    """
    job = planned(given, found)
    if job.is_searched:
        return best_ranked(job.plan, job.stack, job.stated).step
    if not memory_estimate(job.plan).fits.runs:
        raise UserError("the job does not fit", where=f"{job.plan.name} on {job.plan.gpus} GPUs")
    return predict_step(job.plan, job.stack)


def _stack(given: Given) -> StackRates:
    """The training stack, with the network that the user states in place of the measured one."""
    stack = stack_of(given["stack"] or _usual_stack(given))
    if given["calibrate"] is not None:
        stack = calibrated(stack, given["calibrate"])
    stack = stack.counting_as(given["mfu_as"])
    return stack.with_rates({"node_gbs": given["network_gbs"]}) if given["network_gbs"] else stack


def _usual_stack(given: Given) -> str:
    """The first stack that can divide a job so which names none."""
    if given.get("cp") or given.get("ep"):
        return "megatron"
    return "nanotron" if given["tp"] or given["pp"] else "transformers"


def _stated(given: Given) -> Stated:
    switches = frozenset(name for name in SWITCHES if given[_OPTION_OF.get(name, name)] is not None)
    return Stated(given["micro_batch"], given["accumulation"], given["global_batch"], switches)


def _fixed(given: Given, plan: JobPlan) -> tuple[str, ...]:
    """The stated parts of the job in words."""
    named = {
        "dtype": plan.dtype,
        "seq_len": f"{plan.seq_len} tokens",
        "micro_batch": f"micro-batch {given['micro_batch']}",
        "accumulation": f"accumulation {given['accumulation']}",
        "global_batch": f"global batch {given['global_batch']}",
        "attn": f"{plan.attention} attention",
        "checkpointing": f"checkpointing {plan.checkpointing}",
        "liger": "Liger" if plan.liger else "no Liger",
        "compiled": "torch.compile" if plan.compiled else "no torch.compile",
    }
    return tuple(words for name, words in named.items() if given[name] is not None)


def _plan(given: Given, of: tuple[str, ModelShape], gpus: int, sharding: Sharding, stack: StackRates) -> JobPlan:
    name, model = of
    seq_len, gpu = given["seq_len"] or longest_usual(model), gpu_named(given["gpu"])
    return JobPlan(
        name=name,
        model=with_places(model, seq_len, stack),
        gpu=gpu,
        gpus=gpus,
        nodes=given["nodes"] or fewest_nodes(gpus, gpu),
        seq_len=seq_len,
        micro_batch=given["micro_batch"] or 1,
        accumulation=given["accumulation"] or 1,
        dtype=stated_dtype(given["dtype"]) if given["dtype"] else default_dtype(stack, gpu),
        optimizer=given["optimizer"],
        attention=given["attn"] or "sdpa",
        checkpointing=given["checkpointing"] or "none",
        liger=bool(given["liger"]),
        compiled=bool(given["compiled"]),
        fp8=given["fp8"],
        sharding=sharding,
        stack=stack.name,
        **features_of(given, stack, model.experts),
    )


def _filled(plan: JobPlan, given: Given) -> JobPlan:
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


def _check_batch(plan: JobPlan, given: Given) -> None:
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


def _micro_batch(plan: JobPlan, given: Given) -> int:
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


def _sharding(given: Given, gpus: int, stack: StackRates) -> Sharding:
    """The division that the user gave; data parallelism takes the ranks that tensor and pipeline parallelism leave."""
    tp, pp, cp, ep = (given.get(name) or 1 for name in ("tp", "pp", "cp", "ep"))
    stage = given.get("zero")
    zero = stage if stage is not None else FSDP.get(given.get("fsdp") or "", 0)
    dp = given.get("dp") or max(gpus // (tp * pp * cp), 1)
    sharding = Sharding(dp, tp, pp, zero, uneven_stages=stack.uneven_stages, cp=cp, ep=ep)
    stack.check(sharding)
    return sharding
