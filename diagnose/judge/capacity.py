"""The memory ledger of the captured job against the recorded peaks."""

from diagnose.diagnosis.capacity import Capacity, MemoryCount, MemoryPart, Room
from diagnose.metrics import Measured
from diagnose.predict.fit.memory import MemoryLedger, memory_ledger
from diagnose.predict.fit.recorded import recorded_plan
from diagnose.predict.fit.remedies import largest_micro_batch, remedies


def capacity_of(m: Measured) -> Capacity:
    """The ledger of one rank, or why there is none."""
    plan = recorded_plan(m)
    if isinstance(plan, str):
        return Capacity(because=plan)
    ledger = memory_ledger(plan)
    allocated, reserved = (_peak(m, name) for name in ("max_allocated_bytes", "max_reserved_bytes"))
    counted = MemoryCount(
        parts=_parts(ledger),
        allocated_bytes=ledger.allocated_bytes,
        reserved_bytes=ledger.reserved_bytes,
        total_bytes=ledger.total_bytes,
        device_bytes=ledger.capacity_bytes,
        recorded_allocated_bytes=allocated,
        recorded_reserved_bytes=reserved,
        allocated_miss=ledger.allocated_bytes / allocated - 1 if allocated else None,
        reserved_miss=ledger.reserved_bytes / reserved - 1 if reserved else None,
        seq_len=plan.seq_len,
        micro_batch=plan.micro_batch,
        largest_micro_batch=largest_micro_batch(plan),
        room=tuple(
            Room(name=found.name, freed_bytes=found.freed_bytes, largest_micro_batch=found.largest_micro_batch)
            for found in remedies(plan)
        ),
    )
    return Capacity(counted=counted)


def _parts(ledger: MemoryLedger) -> tuple[MemoryPart, ...]:
    return tuple(MemoryPart(name=part.name, bytes=part.bytes, transient=part.transient) for part in ledger.parts)


def _peak(m: Measured, name: str) -> int | None:
    recorded = m.record.number(f"memory.{name}")
    return int(recorded) if recorded else None
