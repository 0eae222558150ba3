"""What to change next in a planned job, by its predicted speed, and whether its ranks should hold copies or shards."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from diagnose.commands.fit.stacks import StackRates
from diagnose.commands.fit.step_time import PredictedStep, predict_step
from diagnose.commands.fit.switches import refusals
from diagnose.errors import UserError
from diagnose.predict.memory.estimate import memory_estimate
from diagnose.predict.memory.fits import Fits
from diagnose.predict.memory.job import JobPlan
from diagnose.predict.memory.remedies import MemoryRemedy, largest_micro_batch, remedies

_LEAST_GAIN = 1.02  # of the throughput, from which a change is worth a line


@dataclass(frozen=True)
class Change:
    """One change of the job.

    Attributes:
        name: in the words of a report.
        plan: the job with it.
        gain: predicted throughput over that of the job as it is.
        freed_bytes: memory that it frees at the same micro-batch; negative if it takes more.
    """

    name: str
    plan: JobPlan
    gain: float
    freed_bytes: int


def takes(plan: JobPlan, stack: StackRates) -> bool:
    """Whether the stack can launch the plan, and each of its switches changes something."""
    stages = (*stack.zero_stages, 0)
    return plan.sharding.zero in stages and not any(refusals(plan, stack))


def best_change(
    plan: JobPlan, stack: StackRates, step: PredictedStep, known: tuple[MemoryRemedy, ...], opens_batch: bool
) -> Change | None:
    """The single change that makes the job fastest; None if none makes it faster by more than 2 %.

    Args:
        plan: the job.
        stack: its training stack.
        step: its predicted step.
        known: changes that free memory.
        opens_batch: whether a change may take the largest micro-batch that then fits.
    """
    found = [
        Change(name, changed, _rate(changed, stack) / _per_gpu(step), memory(plan) - memory(same))
        for name, same, largest in changes(plan, stack, known)
        if (changed := _with_batch(same, largest, opens_batch)) is not None
    ]
    best = max(found, key=lambda change: change.gain, default=None)
    return best if best is not None and best.gain >= _LEAST_GAIN else None


def memory(plan: JobPlan) -> int:
    """Bytes of the fullest rank."""
    return memory_estimate(plan).total_bytes


def changes(plan: JobPlan, stack: StackRates, known: tuple[MemoryRemedy, ...]) -> Iterator[tuple[str, JobPlan, int]]:
    """Changes that the stack takes: name, the job with it, and the largest micro-batch that then fits."""
    for remedy in known:
        if takes(remedy.plan, stack):
            yield remedy.name, remedy.plan, remedy.largest_micro_batch
    for name, changed in _faster(plan):
        if takes(changed, stack):
            yield name, changed, largest_micro_batch(changed)


def _faster(plan: JobPlan) -> Iterator[tuple[str, JobPlan]]:
    """Changes that free no memory."""
    if not plan.compiled:
        yield "torch.compile", replace(plan, compiled=True)
    if plan.checkpointing != "none":
        yield "no checkpointing", replace(plan, checkpointing="none")
    if plan.dtype == "fp32" and plan.gpu.tf32_tflops:
        yield "TF32 products (tf32=True)", replace(plan, dtype="tf32")
    if plan.model.experts and plan.expert_products == "loop":
        yield "grouped products of experts", replace(plan, expert_products="grouped")
    if plan.sharding.zero:
        yield "DDP instead of shards", replace(plan, sharding=replace(plan.sharding, zero=0))


def _with_batch(plan: JobPlan, largest: int, opens_batch: bool) -> JobPlan | None:
    if not largest or (not opens_batch and plan.micro_batch > largest):
        return None
    return replace(plan, micro_batch=largest) if opens_batch else plan


def _rate(plan: JobPlan, stack: StackRates) -> float:
    try:
        return _per_gpu(predict_step(plan, stack))
    except UserError:
        return 0.0


def _per_gpu(step: PredictedStep) -> float:
    return step.expected_tokens_per_s / step.gpus


# Copies or shards: the same job under each ZeRO stage.


@dataclass(frozen=True)
class Sharded:
    """The same job, batch and switches with one ZeRO stage."""

    plan: JobPlan
    step: PredictedStep
    fits: Fits


def compared(plan: JobPlan, stack: StackRates) -> tuple[Sharded, ...]:
    """The plan under each ZeRO stage of the stack, copies first; empty if nothing can be sharded."""
    if plan.sharding.data_ranks == 1:
        return ()
    stages = sorted({*stack.zero_stages, plan.sharding.zero})
    plans = [replace(plan, sharding=replace(plan.sharding, zero=zero)) for zero in stages]
    launched = [each for each in plans if each.sharding.pp == 1 or each.sharding.zero < 2]
    if len(launched) < 2:
        return ()
    return tuple(Sharded(each, predict_step(each, stack), memory_estimate(each).fits) for each in launched)


def remedies_of(plan: JobPlan, stack: StackRates) -> tuple[MemoryRemedy, ...]:
    """Changes that free memory and that the stack takes."""
    return tuple(remedy for remedy in remedies(plan) if takes(remedy.plan, stack))
