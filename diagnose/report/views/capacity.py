"""What the job takes of device memory, in words."""

from dataclasses import dataclass

from diagnose.diagnosis import Diagnosis
from diagnose.diagnosis.capacity import MemoryCount
from diagnose.facts import spoken
from diagnose.report.views.words import counted


@dataclass(frozen=True)
class CapacityView:
    """The memory ledger as shown.

    Attributes:
        lines: what is counted and recorded, and the largest micro-batch.
        parts: name and bytes of each part, the largest first.
        room: each change that makes room, what it frees, and the largest micro-batch with it.
    """

    lines: list[str]
    parts: list[tuple[str, str]]
    room: list[tuple[str, str, str]]


def capacity_view(diagnosis: Diagnosis) -> CapacityView | None:
    """The ledger; None where the record does not tell the job."""
    count = diagnosis.capacity.counted
    if count is None:
        return None
    parts = sorted(count.parts, key=lambda part: -part.bytes)
    return CapacityView(
        lines=[_counted(count), *_recorded(count), _batch(count)],
        parts=[(part.name, spoken(part.bytes, "bytes")) for part in parts],
        room=[(room.name, spoken(room.freed_bytes, "bytes"), f"{room.largest_micro_batch:,}") for room in count.room],
    )


def _counted(count: MemoryCount) -> str:
    share = count.total_bytes / count.device_bytes
    held, whole = spoken(count.total_bytes, "bytes"), spoken(count.device_bytes, "bytes")
    return f"by its sizes the job takes {held}, {100 * share:.0f} % of the device's {whole}"


def _recorded(count: MemoryCount) -> list[str]:
    """Each recorded peak with the miss of the count."""
    peaks = (
        ("allocated", count.recorded_allocated_bytes, count.allocated_bytes, count.allocated_miss),
        ("reserved", count.recorded_reserved_bytes, count.reserved_bytes, count.reserved_miss),
    )
    return [
        f"torch {did} {spoken(seen, 'bytes')} at most; counted are {spoken(held, 'bytes')}, {_off(miss)}"
        for did, seen, held, miss in peaks
        if seen is not None and miss is not None
    ]


def _off(miss: float) -> str:
    return f"{100 * abs(miss):.0f} % {'more' if miss > 0 else 'less'}"


def _batch(count: MemoryCount) -> str:
    largest = counted(count.largest_micro_batch, "sequence")
    now = f"; it is {count.micro_batch:,}"
    return f"the largest micro-batch that fits by the count is {largest} of {count.seq_len:,} tokens{now}"
