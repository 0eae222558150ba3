"""Parts of the page of `diagnose memory`: figures, the curve of the history, and rows of memory in use."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import add

from msgspec.structs import replace

from diagnose.commands.memory.answer import Category, DeviceMemory, Held, MemoryAnswer, Usage
from diagnose.facts import spoken
from diagnose.report.views.words import counted

WIDTH, HEIGHT = 1000, 240
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
    other, the lowest last; the place of the peak, and labelled lines.
    """

    reserved: str
    in_use: str
    stacked: tuple[tuple[Category, str, str], ...]
    peak_x: float
    peak_y: float
    grid: tuple[tuple[float, str], ...]


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
    peak = usage.allocated_bytes.index(max(usage.allocated_bytes))
    return Curve(
        reserved=_area(usage.reserved_bytes, most),
        in_use=_area(usage.allocated_bytes, most),
        stacked=tuple(_stacked(usage, most)),
        peak_x=_x(peak + 0.5, len(usage.allocated_bytes)),
        peak_y=_y(usage.allocated_bytes[peak], most),
        grid=tuple((_y(part * most, most), spoken(round(part * most), "bytes")) for part in (1.0, 0.75, 0.5, 0.25)),
    )


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
        return f"{unknown} given back, by whom is unknown" if device.given_back_by_unknown else ""
    told = f"{_times(device.retries)} given back to go on, {_times(device.empty_cache_calls)} by empty_cache"
    return f"{told}, {unknown} by one of the two" if device.given_back_by_unknown else told


def nothing_found(answer: MemoryAnswer) -> str:
    """A sentence on the faults that are not there, and on those that cannot be known: the one is not the other."""
    if not any(device.actions for device in answer.devices):
        return "nothing, without a history: whether memory ran out or the cache was emptied is unknown"
    if any(device.given_back_by_unknown for device in answer.devices):
        return (
            "no OOM in the history; whether the cache was emptied, or fragmentation cost anything, is unknown: the"
            " history does not tell who gave segments back"
        )
    return "nothing: no OOM, no fragmentation that cost anything, no emptied cache"


def _place(row: Held) -> str:
    """The line and what it called; "" for a category."""
    line = f"{row.file}:{row.line} in {row.function}" if row.file else ""
    return ": ".join(filter(None, (line, row.below)))


def _times(count: int | None) -> str:
    return "an unknown number of times" if count is None else counted(count, "time")


def _stacked(usage: Usage, most: int) -> Iterator[tuple[Category, str, str]]:
    """Category, colour and area up to its upper edge, the highest first: each covers what lies below the one before."""
    edges = list(accumulate((row.bytes for row in usage.by_category), lambda low, row: tuple(map(add, low, row))))
    for row, edge in reversed(list(zip(usage.by_category, edges, strict=True))):
        yield row.category, COLOUR_OF.get(row.category, "plain"), _area(edge, most)


def _area(values: Sequence[int], most: int) -> str:
    """A path of steps: each value holds for its part of the history."""
    steps = [
        f"L{_x(i, len(values)):g} {_y(value, most):g}H{_x(i + 1, len(values)):g}" for i, value in enumerate(values)
    ]
    return f"M0 {HEIGHT}{''.join(steps)}V{HEIGHT}Z"


def _x(part: float, parts: int) -> float:
    return round(WIDTH * part / parts, 1)


def _y(value: float, most: int) -> float:
    return round(HEIGHT * (1 - value / most), 1)
