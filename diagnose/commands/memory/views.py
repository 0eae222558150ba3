"""Parts of the page of `diagnose memory`: figures, the curve of the history, and rows of memory in use."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import add

from msgspec.structs import replace

from diagnose.commands.memory.answer import (
    Category,
    DeviceMemory,
    Held,
    MemoryAnswer,
    MemoryFinding,
    OutOfMemory,
    Usage,
)
from diagnose.facts import duration, spoken
from diagnose.report.views.first_screen import ScreenLine
from diagnose.report.views.plain import plain
from diagnose.report.views.words import counted

WIDTH, HEIGHT = 1000, 240
LEAST_SHOWN = 0.001
MOMENTS_TOLD = 24
COLOUR_OF: Mapping[Category, str] = {
    "parameters": "compute",
    "activations": "memory",
    "gradients": "communication",
    "optimizer": "host",
    "communication": "data",
    "evaluation": "memory odd",
    "other": "plain",
    "no stack": "unexplained",
    "before the history": "unexplained",
}


@dataclass(frozen=True)
class Curve:
    """Areas in a figure of `WIDTH` x `HEIGHT`: what is reserved, what is in use, and of that the categories one on the
    other, the lowest last; the place of the peak, and labelled lines. `first` and `last` label the axis, which is of
    time if `is_timed`; `moments` are its parts.
    """

    reserved: str
    in_use: str
    stacked: tuple[tuple[Category, str, str], ...]
    peak_x: float
    peak_y: float
    grid: tuple[tuple[float, str], ...]
    is_timed: bool
    first: str
    last: str
    moments: list["Moment"]


@dataclass(frozen=True)
class Moment:
    """A part of the history: its place, when it begins, and what is in use then; `is_told` if the table has it."""

    x: float
    width: float
    when: str
    in_use: str
    reserved: str
    by_category: list[str]
    is_told: bool

    @property
    def cells(self) -> list[str]:
        """Its row in the table, after `when`."""
        return [self.in_use, self.reserved, *self.by_category]


@dataclass(frozen=True)
class UsageRow:
    """Memory in use by one allocating line or category."""

    name: str
    where: str
    colour: str
    share: float
    bytes: str
    blocks: str


def curve(usage: Usage) -> Curve:
    """The areas of a history; the highest value fills the figure."""
    most = max((*usage.allocated_bytes, *usage.reserved_bytes, 1))
    peak, xs = usage.allocated_bytes.index(max(usage.allocated_bytes)), _places(usage)
    return Curve(
        reserved=_area(usage.reserved_bytes, most, xs),
        in_use=_area(usage.allocated_bytes, most, xs),
        stacked=tuple(_stacked(usage, most, xs)),
        peak_x=round((xs[peak] + xs[peak + 1]) / 2, 1),
        peak_y=_y(usage.allocated_bytes[peak], most),
        grid=tuple((_y(part * most, most), spoken(round(part * most), "bytes")) for part in (1.0, 0.75, 0.5, 0.25)),
        is_timed=bool(usage.border_us),
        first=_when(usage, 0),
        last=_when(usage, len(usage.allocated_bytes)),
        moments=_moments(usage, xs, peak),
    )


def _places(usage: Usage) -> list[float]:
    """Where each part of the history begins and the last one ends: on an axis of time, else of actions."""
    borders = usage.border_us or range(len(usage.allocated_bytes) + 1)
    return [round(WIDTH * border / borders[-1], 2) for border in borders]


def _when(usage: Usage, part: int) -> str:
    if usage.border_us:
        return duration(1000 * usage.border_us[part])
    return f"action {part * usage.actions_per_point:,}"


def _moments(usage: Usage, xs: Sequence[float], peak: int) -> list[Moment]:
    """The parts; the table has one of every few, and the peak."""
    each = -(-len(usage.allocated_bytes) // MOMENTS_TOLD)
    return [
        Moment(
            x=xs[at],
            width=round(xs[at + 1] - xs[at], 2),
            when=_when(usage, at),
            in_use=spoken(usage.allocated_bytes[at], "bytes"),
            reserved=spoken(usage.reserved_bytes[at], "bytes"),
            by_category=[spoken(row.bytes[at], "bytes") for row in usage.by_category],
            is_told=at % each == 0 or at == peak,
        )
        for at in range(len(usage.allocated_bytes))
    ]


def rows(held: Sequence[Held]) -> list[UsageRow]:
    """One for each category or line."""
    return [
        UsageRow(
            name=_place(row) or row.category,
            where=row.category if _place(row) else "",
            colour=COLOUR_OF.get(row.category, "plain"),
            share=row.share,
            bytes=spoken(row.bytes, "bytes"),
            blocks=f"{row.blocks:,}" if row.blocks else "",
        )
        for row in held
    ]


@dataclass(frozen=True)
class Line:
    """Memory in use by one line of the user's code, or of one category without one, and what it called if several."""

    name: str
    share: float
    bytes: int
    blocks: int
    parts: tuple[Held, ...]


def by_line(held: Sequence[Held]) -> list[Line]:
    """The rows of each line together, the largest first."""
    groups: dict[tuple[str, str, int, str], list[Held]] = defaultdict(list)
    for row in held:
        groups[row.category, row.file, row.line, row.function].append(row)
    lines = [
        Line(
            name=named(rows[0] if len(rows) == 1 else replace(rows[0], below="")),
            share=sum(row.share for row in rows),
            bytes=sum(row.bytes for row in rows),
            blocks=sum(row.blocks for row in rows),
            parts=tuple(rows) if len(rows) > 1 else (),
        )
        for rows in groups.values()
    ]
    return sorted(lines, key=lambda line: -line.bytes)


def named(row: Held) -> str:
    """The category, the line and what it called, as far as they are known."""
    line = f" at {row.file}:{row.line} in {row.function}" if row.file else ""
    return ": ".join(filter(None, (f"{row.category}{line}", row.below)))


def figures(device: DeviceMemory) -> list[tuple[str, str]]:
    """The tiles of a device."""
    told = [
        ("in use", device.allocated_bytes),
        ("reserved", device.reserved_bytes),
        ("in use at most", device.peak_bytes),
        ("free in pieces", device.split_free_bytes),
        ("free in whole segments", device.cached_bytes),
        ("largest free piece", device.largest_free_block_bytes),
    ]
    return [(name, spoken(value, "bytes")) for name, value in told if value is not None]


def given_back(device: DeviceMemory) -> str:
    """Number of times that memory was given back to the driver, and by whom."""
    unknown = counted(device.given_back_by_unknown, "time")
    if device.retries is None and device.empty_cache_calls is None:
        return f"segments were given back {unknown}, by whom is unknown" if device.given_back_by_unknown else ""
    by_allocator, by_job = device.retries, device.empty_cache_calls
    if by_allocator == by_job == device.given_back_by_unknown == 0:
        return "nothing was given back to the driver"
    told = f"segments went back to the driver {_times(by_allocator)} to go on, {_times(by_job)} by empty_cache"
    return f"{told}, {unknown} by one of the two" if device.given_back_by_unknown else told


def nothing_found(answer: MemoryAnswer) -> str:
    """A sentence on the faults that are not there, and on those that cannot be known: the one is not the other."""
    if not any(device.actions for device in answer.devices):
        return "nothing found: without a history nobody can see whether memory ran out or the cache was emptied"
    if any(device.given_back_by_unknown for device in answer.devices):
        return (
            "no out of memory in the history; an emptied cache and fragmentation are unknown, because the history does"
            " not name who gave segments back"
        )
    return f"nothing wrong: {_fullest(answer)}no out of memory, no costly fragmentation, no emptied cache"


def _fullest(answer: MemoryAnswer) -> str:
    """How much of what was reserved the fullest device used at its peak."""
    device = max(answer.devices, key=lambda device: device.peak_bytes or 0)
    if not device.peak_bytes or not device.reserved_bytes or device.peak_bytes > device.reserved_bytes:
        return ""
    return f"{short_size(device.peak_bytes)} of {short_size(device.reserved_bytes)} reserved at the peak; "


def short_size(value: int) -> str:
    """The size without digits that say nothing: "60 MiB"."""
    return spoken(value, "bytes").replace(".0 ", " ")


def head(answer: MemoryAnswer) -> list[ScreenLine]:
    """The verdict, what to do, and what fills the memory at the peak."""
    found = shown_findings(answer)
    device = next((d for d in answer.devices if found and d.device == found[0].device), None) or max(
        answer.devices, key=lambda device: device.peak_bytes or 0, default=None
    )
    return [
        ScreenLine("verdict", plain(_verdict(answer, found, device)), warns=bool(found)),
        ScreenLine(
            "next",
            plain(sentences(found[0].do)[0] if found else sentences(answer.next[0])[0]) if found or answer.next else "",
            is_code=bool(found),
        ),
        ScreenLine("peak", "" if device is None else plain(_peak(device))),
    ]


def shown_findings(answer: MemoryAnswer) -> list[MemoryFinding]:
    """The findings, an OOM and the fragmentation that caused it as one."""
    explained = {found.device for found in answer.findings if found.name == "fragmentation"}
    ran_out = {device.device for device in answer.devices if device.out_of_memory is not None}
    return [
        found
        for found in answer.findings
        if not (found.name == "out-of-memory" and found.device in explained & ran_out)
    ]


def sentences(text: str) -> tuple[str, str]:
    """The first sentence without its full stop, and the others."""
    first, _, rest = text.partition(". ")
    return first.removesuffix("."), rest


def _verdict(answer: MemoryAnswer, found: Sequence[MemoryFinding], device: DeviceMemory | None) -> str:
    if not found or device is None:
        return nothing_found(answer)
    oom = device.out_of_memory
    if oom is not None and found[0].name in ("out-of-memory", "fragmentation"):
        return _ran_out(oom)
    return sentences(found[0].says)[0]


def _ran_out(oom: OutOfMemory) -> str:
    """The memory that was wanted, and the memory that was free but not enough."""
    at = f" at {_short(oom.file)}:{oom.line}" if oom.file else ""
    when = " in an evaluation" if oom.in_evaluation else ""
    free = "" if oom.reserved_free_bytes is None else f"{short_size(oom.reserved_free_bytes)} are free in the cache"
    if free and oom.reserved_free_bytes and oom.largest_free_block_bytes is not None:
        free += f", in pieces of at most {short_size(oom.largest_free_block_bytes)}"
    left = f"{short_size(oom.device_free_bytes)} on the device"
    return f"out of memory{at}{when}: {short_size(oom.requested_bytes)} wanted; " + (
        f"{free}, and {left}" if free else f"{left} are free"
    )


def _peak(device: DeviceMemory) -> str:
    """The peak and its categories, each with its share and its largest line."""
    if device.peak_bytes is None:
        return ""
    parts = [_part(device, row) for row in device.at_peak if row.share >= LEAST_SHOWN]
    return f"{short_size(device.peak_bytes)}: {', '.join(parts)}"


def _part(device: DeviceMemory, row: Held) -> str:
    notes = ", ".join(filter(None, (_largest_line(device, row), percent(row))))
    return f"{row.category} {short_size(row.bytes)} ({notes})"


def percent(row: Held | Line) -> str:
    """The share in whole per cent."""
    return f"{100 * row.share:.0f} %"


def _largest_line(device: DeviceMemory, row: Held) -> str:
    line = next((one for one in device.lines_at_peak if one.category == row.category and one.file), None)
    return f"{_short(line.file)}:{line.line}" if line else ""


def _short(file: str) -> str:
    return file.replace("\\", "/").rsplit("/", 1)[-1]


def _place(row: Held) -> str:
    """The line and what it called; "" for a category."""
    line = f"{row.file}:{row.line} in {row.function}" if row.file else ""
    return ": ".join(filter(None, (line, row.below)))


def _times(count: int | None) -> str:
    return "an unknown number of times" if count is None else counted(count, "time")


def _stacked(usage: Usage, most: int, xs: Sequence[float]) -> Iterator[tuple[Category, str, str]]:
    """Category, colour and area up to its upper edge, the highest first: each covers what lies below the one before."""
    edges = list(accumulate((row.bytes for row in usage.by_category), lambda low, row: tuple(map(add, low, row))))
    for row, edge in reversed(list(zip(usage.by_category, edges, strict=True))):
        yield row.category, COLOUR_OF.get(row.category, "plain"), _area(edge, most, xs)


def _area(values: Sequence[int], most: int, xs: Sequence[float]) -> str:
    """A path of steps: each value holds for its part of the history."""
    steps = [f"L{xs[i]:g} {_y(value, most):g}H{xs[i + 1]:g}" for i, value in enumerate(values)]
    return f"M0 {HEIGHT}{''.join(steps)}V{HEIGHT}Z"


def _y(value: float, most: int) -> float:
    return round(HEIGHT * (1 - value / most), 1)
