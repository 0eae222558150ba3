"""The memory estimate of the captured job against the recorded peaks, and what each change leaves of the memory."""

from collections.abc import Callable, Sequence

from diagnose.diagnosis.capacity import Capacity, MemoryCount, MemoryPart, OptimizerStates, PlannedRoom, Room
from diagnose.facts import Facts
from diagnose.metrics import Measured
from diagnose.predict.memory.changes import changed
from diagnose.predict.memory.estimate import MemoryEstimate, memory_estimate
from diagnose.predict.memory.job import JobPlan
from diagnose.predict.memory.optimizers import optimizer_choices
from diagnose.predict.memory.recorded import recorded_plan
from diagnose.predict.memory.remedies import largest_micro_batch, remedies
from diagnose.rule import Rule

ESTIMATE_ERROR = (
    0.1  # by which the estimate of jobs without tensor parallelism differs at most from what ran (docs/fit.md)
)
RangeOf = Callable[[JobPlan], tuple[int, int]]


def capacity_of(m: Measured, planned: Sequence[Rule], facts: Facts) -> Capacity:
    """The estimate of one rank, or why there is none.

    Args:
        m: the rank.
        planned: the rules of the plan, in its order.
        facts: of the job.
    """
    plan = recorded_plan(m)
    if isinstance(plan, str):
        return Capacity(because=plan)
    estimate = memory_estimate(plan)
    allocated, reserved = (_peak(m, name) for name in ("max_allocated_bytes", "max_reserved_bytes"))
    range_of = _range_of(estimate, reserved)
    counted = MemoryCount(
        parts=_parts(estimate),
        allocated_bytes=estimate.allocated_bytes,
        reserved_bytes=estimate.reserved_bytes,
        total_bytes=estimate.total_bytes,
        device_bytes=estimate.capacity_bytes,
        recorded_allocated_bytes=allocated,
        recorded_reserved_bytes=reserved,
        allocated_miss=estimate.allocated_bytes / allocated - 1 if allocated else None,
        reserved_miss=estimate.reserved_bytes / reserved - 1 if reserved else None,
        seq_len=plan.seq_len,
        micro_batch=plan.micro_batch,
        largest_micro_batch=largest_micro_batch(plan),
        micro_batch_range=range_of(plan),
        room=_room(plan, range_of),
        planned=_planned(plan, planned, facts, range_of),
        optimizers=_optimizers(plan, range_of),
    )
    return Capacity(counted=counted)


def _range_of(estimate: MemoryEstimate, reserved: int | None) -> RangeOf:
    """The largest micro-batch if the job takes as much more or less than counted as jobs do, or as this one did."""
    seen = reserved / estimate.reserved_bytes if reserved else 1.0
    most, least = max(1 + ESTIMATE_ERROR, seen), min(1 - ESTIMATE_ERROR, seen)
    return lambda plan: (largest_micro_batch(plan, most), largest_micro_batch(plan, least))


def _parts(estimate: MemoryEstimate) -> tuple[MemoryPart, ...]:
    return tuple(MemoryPart(name=part.name, bytes=part.bytes, transient=part.transient) for part in estimate.parts)


def _room(plan: JobPlan, range_of: RangeOf) -> tuple[Room, ...]:
    return tuple(
        Room(
            name=found.name,
            freed_bytes=found.freed_bytes,
            largest_micro_batch=found.largest_micro_batch,
            micro_batch_range=range_of(found.plan),
        )
        for found in remedies(plan)
    )


def _planned(plan: JobPlan, rules: Sequence[Rule], facts: Facts, range_of: RangeOf) -> tuple[PlannedRoom, ...]:
    """Each change with those before it in place."""
    rows: list[PlannedRoom] = []
    for rule in rules:
        after = changed(plan, rule, facts)
        if isinstance(after, str):
            return (*rows, PlannedRoom(rule=rule.id, because=after))
        total = memory_estimate(after).total_bytes
        freed = memory_estimate(plan).total_bytes - total
        plan = after
        if freed:
            row = PlannedRoom(
                rule=rule.id,
                freed_bytes=freed,
                total_bytes=total,
                micro_batch=plan.micro_batch,
                largest_micro_batch=largest_micro_batch(plan),
                micro_batch_range=range_of(plan),
            )
            rows.append(row)
    return tuple(rows)


def _optimizers(plan: JobPlan, range_of: RangeOf) -> tuple[OptimizerStates, ...]:
    return tuple(
        OptimizerStates(
            name=choice.name,
            in_use=choice.plan.optimizer == plan.optimizer,
            parameter_bytes=choice.parameter_bytes,
            state_bytes=choice.state_bytes,
            total_bytes=choice.total_bytes,
            largest_micro_batch=largest_micro_batch(choice.plan),
            micro_batch_range=range_of(choice.plan),
            numerics=choice.numerics,
        )
        for choice in optimizer_choices(plan)
    )


def _peak(m: Measured, name: str) -> int | None:
    recorded = m.record.number(f"memory.{name}")
    return int(recorded) if recorded else None
