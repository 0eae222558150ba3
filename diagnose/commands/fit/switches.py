"""The switches of a job that change something: those that its stack has, its model takes and its GPU runs."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product

from diagnose.commands.fit.stacks import StackRates
from diagnose.errors import WrongUsage
from diagnose.formulas.supported_kernels import flash_blocked, has_liger, has_sdpa, has_triton
from diagnose.predict.memory.job import CHECKPOINTINGS, JobPlan

SWITCHES = ("attention", "checkpointing", "liger", "compiled")
"""The attributes of a plan that a search varies where nobody states them."""
_STACKS: Mapping[str, tuple[str, ...]] = {
    "--liger": ("transformers", "other"),
    "--compile": ("transformers", "llm-foundry", "torchtitan", "other"),
    "--fp8": ("transformers", "llm-foundry", "torchtitan", "megatron", "other"),
    "--attn eager": ("transformers", "llm-foundry", "other"),
    "--checkpointing selective": ("torchtitan", "megatron", "other"),
}
_WITHOUT: Mapping[str, Callable[[JobPlan], JobPlan]] = {
    "--liger": lambda plan: replace(plan, liger=False),
    "--compile": lambda plan: replace(plan, compiled=False),
    "--zero": lambda plan: replace(plan, sharding=replace(plan.sharding, zero=0)),
}
_FLASH = {
    "old GPU": "flash attention needs compute capability 8.0, and {gpu} has {capability}",
    "fp32": "flash attention takes bf16 and fp16, and the job computes in {precision}",
    "head size": "flash attention takes heads of at most 256, and the model's have {head}",
}


def refusals(plan: JobPlan, stack: StackRates) -> Iterator[tuple[str, str]]:
    """The switches of the plan that change nothing or cannot be made, as options, each with the reason."""
    for option in _asked(plan, stack):
        if stack.name not in _STACKS.get(option, (stack.name,)):
            yield option, f"{stack.name} has no such setting; --stack may be {', '.join(_STACKS[option])} for it"
        elif reason := _refused(option, plan):
            yield option, reason


def check(plan: JobPlan, stack: StackRates) -> None:
    """Refuse a plan with a switch that changes nothing or cannot be made.

    Raises:
        WrongUsage: with the reason.
    """
    for option, reason in refusals(plan, stack):
        what = "has no effect here" if option in _WITHOUT else "cannot be used here"
        raise WrongUsage(f"{option} {what}", where=plan.name, why=reason, do="leave it out")


def effective(plan: JobPlan, stack: StackRates) -> tuple[JobPlan, tuple[str, ...]]:
    """The plan as it would run, without the switches that change nothing, and a note on each of these.

    Raises:
        WrongUsage: it has a switch that cannot be made.
    """
    notes = []
    for option, reason in refusals(plan, stack):
        if option not in _WITHOUT:
            raise WrongUsage(f"{option} cannot be used here", where=plan.name, why=reason)
        plan = _WITHOUT[option](plan)
        notes.append(f"predicted without {option.removeprefix('--')}: {reason}")
    return plan, tuple(notes)


def variants(plan: JobPlan, stack: StackRates, stated: frozenset[str]) -> tuple[JobPlan, ...]:
    """The plan with each combination of the switches that nobody stated and that change something."""
    found = []
    for values in product(*(_values(name, plan, stack, stated) for name in SWITCHES)):
        candidate = replace(plan, **dict(zip(SWITCHES, values, strict=True)))  # type: ignore[arg-type]
        if not any(refusals(candidate, stack)):
            found.append(candidate)
    return tuple(found)


def with_defaults(plan: JobPlan, stack: StackRates, stated: frozenset[str]) -> JobPlan:
    """The plan with the first attention that its model has, where nobody states one."""
    if "attention" in stated or not any(option == "--attn sdpa" for option, _ in refusals(plan, stack)):
        return plan
    flash = replace(plan, attention="flash")
    return flash if not any(refusals(flash, stack)) else replace(plan, attention="eager")


def switched_on(plan: JobPlan) -> int:
    """How many switches depart from the plain job: of two equally fast ones the plainer is taken."""
    return plan.compiled + plan.liger + (plan.checkpointing != "none") + (plan.attention != "sdpa")


def _values(name: str, plan: JobPlan, stack: StackRates, stated: frozenset[str]) -> tuple[object, ...]:
    if name in stated:
        return (getattr(plan, name),)
    if name == "attention":
        return ("sdpa", "flash") if stack.name in _STACKS["--attn eager"] else (plan.attention,)
    return CHECKPOINTINGS if name == "checkpointing" else (False, True)


def _asked(plan: JobPlan, stack: StackRates) -> Iterator[str]:
    """The switches of the plan as options; other stacks than transformers bring fused attention of their own."""
    if plan.liger:
        yield "--liger"
    if plan.compiled:
        yield "--compile"
    if plan.fp8:
        yield "--fp8"
    if plan.attention != "sdpa" or stack.name == "transformers":
        yield f"--attn {plan.attention}"
    yield f"--checkpointing {plan.checkpointing}"
    if plan.sharding.zero and plan.sharding.data_ranks == 1:
        yield "--zero"


def _refused(option: str, plan: JobPlan) -> str:
    kind, gpu = plan.model.model_type, plan.gpu
    if option in ("--liger", "--compile") and not has_triton(gpu.capability):
        return f"Triton does not compile for {gpu.key}"
    if option == "--liger" and not has_liger(kind):
        return f"Liger has no kernels for the model type {kind or '(unknown)'}: the job would run as without it"
    if option == "--attn sdpa" and not has_sdpa(kind):
        return f"transformers has no scaled_dot_product_attention for the model type {kind}"
    if option == "--attn flash":
        blocked = flash_blocked(gpu.capability, plan.precision.peak, plan.model.head_dim)
        told = {"gpu": gpu.key, "capability": gpu.capability, "precision": plan.dtype, "head": plan.model.head_dim}
        return _FLASH[blocked].format(**told) if blocked else ""
    return "ZeRO divides among data-parallel ranks, and there is one" if option == "--zero" else ""
