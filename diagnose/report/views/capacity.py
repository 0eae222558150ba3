"""What the job takes of device memory, in words."""

from dataclasses import dataclass

from diagnose.diagnosis import Diagnosis
from diagnose.diagnosis.capacity import Capacity
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
    capacity = diagnosis.capacity
    if capacity.because:
        return None
    parts = sorted(capacity.parts, key=lambda part: -part.bytes)
    return CapacityView(
        lines=[_counted(capacity), *_recorded(capacity), _batch(capacity)],
        parts=[(part.name, spoken(part.bytes, "bytes")) for part in parts],
        room=[
            (room.name, spoken(room.freed_bytes, "bytes"), f"{room.largest_micro_batch:,}") for room in capacity.room
        ],
    )


def _counted(capacity: Capacity) -> str:
    share = capacity.total_bytes / capacity.device_bytes
    held, whole = spoken(capacity.total_bytes, "bytes"), spoken(capacity.device_bytes, "bytes")
    return f"by its sizes the job takes {held}, {100 * share:.0f} % of the device's {whole}"


def _recorded(capacity: Capacity) -> list[str]:
    """Each recorded peak with the miss of the count."""
    peaks = (
        ("allocated", capacity.recorded_allocated_bytes, capacity.allocated_bytes, capacity.allocated_miss),
        ("reserved", capacity.recorded_reserved_bytes, capacity.reserved_bytes, capacity.reserved_miss),
    )
    return [
        f"torch {did} {spoken(seen, 'bytes')} at most; counted are {spoken(count, 'bytes')}, {_off(miss)}"
        for did, seen, count, miss in peaks
        if seen is not None and miss is not None
    ]


def _off(miss: float) -> str:
    return f"{100 * abs(miss):.0f} % {'more' if miss > 0 else 'less'}"


def _batch(capacity: Capacity) -> str:
    largest = counted(capacity.largest_micro_batch, "sequence")
    now = f"; it is {capacity.micro_batch:,}"
    return f"the largest micro-batch that fits by the count is {largest} of {capacity.seq_len:,} tokens{now}"
