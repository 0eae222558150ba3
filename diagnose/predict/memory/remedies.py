"""The largest micro-batch that fits, as the job is and after each change that makes room."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from diagnose.formulas.supported_kernels import has_liger, has_sdpa
from diagnose.predict.memory.estimate import memory_estimate
from diagnose.predict.memory.job import JobPlan

MOST_SEQUENCES = 1 << 16  # nobody trains with a larger micro-batch


@dataclass(frozen=True)
class MemoryRemedy:
    """One change of the job and what it makes room for.

    Attributes:
        name: the change, in the words of a report.
        plan: the job with it.
        freed_bytes: memory that it frees at the micro-batch as it is.
        largest_micro_batch: sequences that fit with it, 0 when none does.
    """

    name: str
    plan: JobPlan
    freed_bytes: int
    largest_micro_batch: int


def largest_micro_batch(plan: JobPlan, taken: float = 1.0) -> int:
    """Sequences of the largest micro-batch that fits; 0 when not even one does.

    Args:
        plan: the job.
        taken: what it takes over what the estimate counts.
    """
    fits, too_many = 0, 1
    while too_many <= MOST_SEQUENCES and _fits(plan, too_many, taken):
        fits, too_many = too_many, 2 * too_many
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        fits, too_many = (middle, too_many) if _fits(plan, middle, taken) else (fits, middle)
    return fits


def _fits(plan: JobPlan, micro_batch: int, taken: float) -> bool:
    estimate = memory_estimate(replace(plan, micro_batch=micro_batch))
    return estimate.total_bytes * taken <= estimate.capacity_bytes


def remedies(plan: JobPlan) -> tuple[MemoryRemedy, ...]:
    """Changes that free memory, the one that admits the largest micro-batch first; others are left out."""
    now = memory_estimate(plan).total_bytes
    found = []
    for name, changed in _changes(plan):
        freed = now - memory_estimate(changed).total_bytes
        if freed > 0:
            found.append(MemoryRemedy(name, changed, freed, largest_micro_batch(changed)))
    return tuple(sorted(found, key=lambda remedy: (-remedy.largest_micro_batch, -remedy.freed_bytes)))


def together(plan: JobPlan, zero_stages: Collection[int]) -> tuple[tuple[str, ...], JobPlan]:
    """Add the change that frees most until one sequence fits; return the changes and the job with them.

    If it still does not fit, they are all changes that free anything.

    Args:
        plan: the job.
        zero_stages: ZeRO stages that its framework has.
    """
    made: tuple[str, ...] = ()
    job = replace(plan, micro_batch=1)
    while not _fits(job, 1, 1.0):
        left = [
            (memory_estimate(changed).total_bytes, name, changed)
            for name, changed in _changes(job)
            if changed.sharding.zero in (*zero_stages, job.sharding.zero)
        ]
        least = min(left, key=lambda each: each[0], default=None)
        if least is None or least[0] >= memory_estimate(job).total_bytes:
            break
        _, name, job = least
        made = (*made, name)
    return made, job


def _changes(plan: JobPlan) -> list[tuple[str, JobPlan]]:
    changes = []
    if plan.checkpointing != "full":
        changes.append(("full activation checkpointing", replace(plan, checkpointing="full")))
    if plan.checkpointing == "none":
        changes.append(("selective activation checkpointing", replace(plan, checkpointing="selective")))
    if plan.attention == "eager" and has_sdpa(plan.model.model_type):
        changes.append(("SDPA instead of eager attention", replace(plan, attention="sdpa")))
    if not plan.liger and has_liger(plan.model.model_type) and plan.model.lm_head:
        changes.append(("Liger kernels", replace(plan, liger=True)))
    if plan.optimizer == "adamw":
        changes.append(("8-bit AdamW", replace(plan, optimizer="adamw-8bit")))
    if plan.precision.compute_bytes == 4:
        half = plan.gpu.matrix_dtype
        changes.append((f"{half} autocast", replace(plan, dtype=f"{half}-mixed")))
    return changes + _zero_stages(plan)


def _zero_stages(plan: JobPlan) -> list[tuple[str, JobPlan]]:
    """The higher ZeRO stages; with a pipeline only the first, since gradients are not scattered per micro-batch."""
    sharding = plan.sharding
    if sharding.shards == 1:
        return []
    highest = 1 if sharding.pp > 1 else 3
    names = {1: "ZeRO-1", 2: "ZeRO-2 (FSDP SHARD_GRAD_OP)", 3: "ZeRO-3 (FSDP FULL_SHARD)"}
    stages = range(sharding.zero + 1, highest + 1)
    return [(names[stage], replace(plan, sharding=replace(sharding, zero=stage))) for stage in stages]
