"""The memory of a rank as a bar of its parts on the device's memory, with the peak that torch recorded."""

from collections.abc import Iterable
from dataclasses import dataclass

from diagnose.diagnosis import Diagnosis
from diagnose.diagnosis.capacity import MemoryCount, MemoryPart
from diagnose.facts import spoken
from diagnose.report.views.capacity import CapacityView, capacity_view


@dataclass(frozen=True)
class HeldPart:
    """A part of the bar; `x` and `width` in percent of it. `key` is the colour: "compute" of what is always held,
    "memory" of what each step takes and gives back.
    """

    name: str
    bytes: int
    key: str
    x: float
    width: float


@dataclass(frozen=True)
class MemoryBar:
    """The parts side by side on the device's memory, or on what they need if that is more; `peak` is the place of the
    recorded one, None if it is unknown.
    """

    parts: list[HeldPart]
    device: float
    peak: float | None
    says: str


@dataclass(frozen=True)
class CapacitySection:
    """The estimate in words and tables, and its bar; None if nothing is counted."""

    view: CapacityView
    bar: MemoryBar | None


def capacity_section(diagnosis: Diagnosis) -> CapacitySection | None:
    """The section; None if the estimate is of no use to the job."""
    view, count = capacity_view(diagnosis), diagnosis.capacity.counted
    return None if view is None else CapacitySection(view, _bar(count) if count is not None else None)


def _bar(count: MemoryCount) -> MemoryBar:
    whole = max(count.device_bytes, count.total_bytes, count.recorded_allocated_bytes or 0, 1)
    seen = count.recorded_allocated_bytes
    ordered = sorted(count.parts, key=lambda part: (part.transient, -part.bytes))
    told = ", ".join(f"{part.name} {spoken(part.bytes, 'bytes')}" for part in ordered)
    return MemoryBar(
        parts=list(_placed(ordered, whole)),
        device=100 * count.device_bytes / whole,
        peak=None if seen is None else 100 * seen / whole,
        says=f"Of the device's {spoken(count.device_bytes, 'bytes')}: {told}",
    )


def _placed(parts: Iterable[MemoryPart], whole: int) -> Iterable[HeldPart]:
    x = 0.0
    for part in parts:
        width = 100 * part.bytes / whole
        yield HeldPart(part.name, part.bytes, "memory" if part.transient else "compute", x, width)
        x += width
