"""The job's need of device memory, in words."""

import msgspec

from diagnose.diagnosis import Diagnosis
from diagnose.diagnosis.capacity import MemoryCount, OptimizerStates, PlannedRoom
from diagnose.facts import spoken
from diagnose.report.views.changes import headline

BreakdownRow = tuple[str, ...]
_FAR = 0.25  # of the recorded peak: more than twice the error of the jobs that the estimate was tested on


class CapacityTable(msgspec.Struct, frozen=True):
    """Rows under a caption; the first cell of a row is a name, the others are amounts.

    The column `prose` holds clauses instead; 0 if none does.
    """

    caption: str
    heads: BreakdownRow
    rows: list[BreakdownRow]
    prose: int = 0


class CapacityView(msgspec.Struct, frozen=True):
    """The memory estimate as shown.

    Attributes:
        lines: what is counted and recorded, and the largest micro-batch; or why nothing is counted.
        tables: the parts, what the plan does to memory, what else makes room, and the optimizer's states.
    """

    lines: list[str]
    tables: list[CapacityTable] = msgspec.field(default_factory=list)


def capacity_view(diagnosis: Diagnosis) -> CapacityView | None:
    """The memory estimate; None for a job that trains nothing on a GPU, for which it has no use."""
    count = diagnosis.capacity.counted
    if count is None:
        lines = [f"not counted: {diagnosis.capacity.because}", *_never_used(diagnosis)]
        return CapacityView(lines) if diagnosis.trains and diagnosis.fact("has_gpu") else None
    lines = [_counted(count), *_recorded(count), *_far_off(count), _batch(count), *_fused(diagnosis)]
    tables = (_parts(count), _plan(diagnosis, count), _room(count), _optimizers(count))
    return CapacityView(lines, [table for table in tables if table.rows])


def _parts(count: MemoryCount) -> CapacityTable:
    parts = sorted(count.parts, key=lambda part: -part.bytes)
    rows: list[BreakdownRow] = [(part.name, spoken(part.bytes, "bytes")) for part in parts]
    return CapacityTable("By part", ("part", "counted"), rows)


def _plan(diagnosis: Diagnosis, count: MemoryCount) -> CapacityTable:
    caption = "With the changes of the plan, each after those before it"
    heads = ("change", "memory with it", "largest micro-batch")
    return CapacityTable(
        caption, heads, [_planned(diagnosis, row, count.device_bytes) for row in count.planned], prose=1
    )


def _room(count: MemoryCount) -> CapacityTable:
    rows: list[BreakdownRow] = [
        (room.name, spoken(room.freed_bytes, "bytes"), _sequences(room.largest_micro_batch, room.micro_batch_range))
        for room in count.room
    ]
    return CapacityTable("What makes room, each alone", ("change", "frees", "largest micro-batch"), rows)


def _optimizers(count: MemoryCount) -> CapacityTable:
    heads = ("optimizer", "bytes of a parameter", "states here", "largest micro-batch", "training")
    rows = [_states(row) for row in count.optimizers]
    return CapacityTable("States of the optimizer", heads, rows if len(rows) > 1 else [], prose=4)


def _counted(count: MemoryCount) -> str:
    share = count.total_bytes / count.device_bytes
    held, whole = spoken(count.total_bytes, "bytes"), spoken(count.device_bytes, "bytes")
    left = count.device_bytes - count.total_bytes
    room = f": {spoken(left, 'bytes')} are left" if left >= 0 else f": {spoken(-left, 'bytes')} too much"
    takes = f"by its sizes the job takes {held}, {100 * share:.0f} % of the device's {whole}"
    return takes if _far_off(count) else takes + room


def _recorded(count: MemoryCount) -> list[str]:
    """Each recorded peak with the miss of the count."""
    peaks = (
        ("allocated", count.recorded_allocated_bytes, count.allocated_bytes, count.allocated_miss),
        ("reserved", count.recorded_reserved_bytes, count.reserved_bytes, count.reserved_miss),
    )
    return [
        f"torch {did} at most {spoken(seen, 'bytes')}; the count is {spoken(held, 'bytes')}, {_off(miss)}"
        for did, seen, held, miss in peaks
        if seen is not None and miss is not None
    ]


def _far_off(count: MemoryCount) -> list[str]:
    """A caution about a count that is far from the recorded peak; empty if it is near."""
    miss, seen = count.allocated_miss, count.recorded_allocated_bytes
    if miss is None or seen is None or abs(miss) <= _FAR:
        return []
    apart = spoken(abs(seen - count.allocated_bytes), "bytes")
    if miss < 0:
        why = "another model, results that are kept, a longer batch"
        return [f"{apart} that torch allocated are not counted ({why}); only the low ends of the ranges below hold"]
    why = "less is kept for the gradients than the sizes tell"
    return [f"{apart} are counted that torch never allocated ({why}); only the high ends of the ranges below hold"]


def _off(miss: float) -> str:
    return f"{100 * abs(miss):.0f} % {'more' if miss > 0 else 'less'}"


def _batch(count: MemoryCount) -> str:
    largest = _sequences(count.largest_micro_batch, count.micro_batch_range)
    now = f"; it is {count.micro_batch:,}"
    return f"the largest micro-batch that fits by the count is {largest} sequences of {count.seq_len:,} tokens{now}"


def _sequences(likely: int, span: tuple[int, int]) -> str:
    """The count, and its range if the error of the estimate makes one: "14 (12 to 16)"."""
    least, most = span
    return f"{likely:,}" if least == most else f"{likely:,} ({least:,} to {most:,})"


def _planned(diagnosis: Diagnosis, row: PlannedRoom, device_bytes: int) -> BreakdownRow:
    finding = diagnosis.finding(row.rule)
    change = headline(finding, "").action if finding else row.rule
    if row.total_bytes is None or row.freed_bytes is None or row.micro_batch_range is None:
        return change, f"unknown: {row.because}", "unknown"
    than_before = f"{spoken(abs(row.freed_bytes), 'bytes')} {'less' if row.freed_bytes > 0 else 'more'}"
    over = "" if row.total_bytes <= device_bytes else "; by the count it does not fit"
    memory = f"{spoken(row.total_bytes, 'bytes')}, {than_before}{over}"
    return change, memory, _sequences(row.largest_micro_batch or 0, row.micro_batch_range)


def _states(row: OptimizerStates) -> BreakdownRow:
    name = f"{row.name}, as it is" if row.in_use else row.name
    each = f"{row.parameter_bytes:.3f}".rstrip("0").rstrip(".")
    largest = _sequences(row.largest_micro_batch, row.micro_batch_range)
    return name, each, spoken(row.state_bytes, "bytes"), largest, row.numerics or "the same"


def _fused(diagnosis: Diagnosis) -> list[str]:
    if diagnosis.fact("optimizer_faster_form") != "fused":
        return []
    return ["the fused form of the optimizer saves time and no memory: its states are the same"]


def _never_used(diagnosis: Diagnosis) -> list[str]:
    """The headroom by the peak of torch's allocator, if that is known."""
    peak, total = diagnosis.fact("memory_peak_bytes"), diagnosis.fact("memory_total_bytes")
    if not isinstance(peak, int | float) or not isinstance(total, int | float):
        return []
    held, whole = spoken(peak, "bytes"), spoken(total, "bytes")
    return [f"torch reserved {held} of the device's {whole} at most: {spoken(max(total - peak, 0), 'bytes')} are left"]
