"""Memory over the window as a drawing: what tensors hold as an area, what is reserved as a line above it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from diagnose.diagnosis import Diagnosis, MemoryOverTime
from diagnose.facts import duration, spoken

WIDTH, HEIGHT = 780, 300
LEFT, RIGHT, TOP, BOTTOM = 110, 764, 34, 250
_ROOM = 1.04  # above the highest value
_MOMENTS = 24
_STEPS_NAMED = 6  # of which a phone shows every other


@dataclass(frozen=True)
class Level:
    """Parts of the memory ledger that are always held, one on the other: the name of the highest of them, at `y`."""

    name: str
    bytes: int
    y: float


@dataclass(frozen=True)
class MemoryMoment:
    """A part of the window, from `x` on: the cells of its row in the table."""

    x: float
    width: float
    when: str
    least: str
    most: str
    reserved: str
    is_peak: bool

    @property
    def tip(self) -> str:
        """The row as a sentence."""
        held = self.most if self.least == self.most else f"{self.least} to {self.most}"
        return f"{self.when}: {held} in use" + (f", {self.reserved} reserved" if self.reserved else "")


@dataclass(frozen=True)
class MemoryDrawing:
    """The drawing: `ticks` are heights with their sizes, `steps` are places with the numbers of some of the steps.

    `peak` is the place of the peak. `reserved` is "" if it is not known.
    """

    allocated: str
    reserved: str
    ticks: list[tuple[float, str]]
    steps: list[tuple[float, str]]
    levels: list[Level]
    peak: tuple[float, float]
    peak_bytes: int
    moments: list[MemoryMoment]
    last: str
    says: str
    on_host: bool


def memory_drawing(diagnosis: Diagnosis) -> MemoryDrawing | None:
    """The drawing; None if the capture holds no memory over time."""
    memory = diagnosis.memory_over_time
    if memory is None:
        return None
    scale = _Scale(memory)
    at = memory.most_bytes.index(memory.peak_bytes)
    return MemoryDrawing(
        allocated=scale.area(memory.least_bytes, memory.most_bytes),
        reserved="" if memory.reserved_bytes is None else scale.line(memory.reserved_bytes),
        ticks=[(scale.y(part * scale.most), spoken(round(part * scale.most), "bytes")) for part in (0.5, 1.0)],
        steps=_steps(memory, scale),
        levels=_levels(diagnosis, memory, scale),
        peak=(scale.x(at + 0.5), scale.y(memory.peak_bytes)),
        peak_bytes=memory.peak_bytes,
        moments=list(_moments(memory, scale, at)),
        last=duration(scale.pieces * memory.piece_ns),
        says=_says(diagnosis, memory),
        on_host=memory.device is None,
    )


class _Scale:
    """Places of pieces and of sizes."""

    def __init__(self, memory: MemoryOverTime) -> None:
        self.pieces = len(memory.most_bytes)
        self.most = max(memory.peak_bytes, *(memory.reserved_bytes or (1,)), 1)

    def x(self, piece: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * min(max(piece / self.pieces, 0.0), 1.0), 1)

    def y(self, size: float) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * size / (_ROOM * self.most), 1)

    def line(self, sizes: Sequence[int]) -> str:
        """A path of steps: each size holds for its piece."""
        return "M" + "L".join(f"{self.x(at)} {self.y(size)}H{self.x(at + 1)}" for at, size in enumerate(sizes))

    def area(self, least: Sequence[int], most: Sequence[int]) -> str:
        """The two edges of what was held, and all below them."""
        return f"{self.line(most)}V{BOTTOM}H{LEFT}Z{self.line(least)}"


def _steps(memory: MemoryOverTime, scale: _Scale) -> list[tuple[float, str]]:
    each = -(-len(memory.steps) // _STEPS_NAMED)
    within = range(-memory.piece_ns * scale.pieces // 8, memory.piece_ns * scale.pieces)
    return [
        (scale.x(ns / memory.piece_ns), f"step {number:,}" if at % each == 0 else "")
        for at, (number, ns) in enumerate(zip(memory.steps, memory.step_ns, strict=True))
        if ns in within
    ]


def _levels(diagnosis: Diagnosis, memory: MemoryOverTime, scale: _Scale) -> list[Level]:
    """The parts that the ledger counts as always held in torch's allocator; none of another device than a GPU."""
    count = diagnosis.capacity.counted
    if count is None or memory.device is None:
        return []
    ends = accumulate(part.bytes for part in count.held)
    return [
        Level(part.name, end, scale.y(end)) for part, end in zip(count.held, ends, strict=True) if end <= scale.most
    ]


def _moments(memory: MemoryOverTime, scale: _Scale, peak: int) -> Iterator[MemoryMoment]:
    each = -(-scale.pieces // _MOMENTS)
    for begin in range(0, scale.pieces, each):
        end = min(begin + each, scale.pieces)
        reserved = memory.reserved_bytes
        yield MemoryMoment(
            x=scale.x(begin),
            width=round(scale.x(end) - scale.x(begin), 1),
            when=duration(begin * memory.piece_ns),
            least=spoken(min(memory.least_bytes[begin:end]), "bytes"),
            most=spoken(max(memory.most_bytes[begin:end]), "bytes"),
            reserved="" if reserved is None else spoken(max(reserved[begin:end]), "bytes"),
            is_peak=begin <= peak < end,
        )


def _says(diagnosis: Diagnosis, memory: MemoryOverTime) -> str:
    of = "" if len(diagnosis.ranks) < 2 else f" of rank {memory.rank}"
    peak = f"at most {spoken(memory.peak_bytes, 'bytes')}, {duration(memory.peak_ns)} into the window"
    if memory.device is None:
        return f"The host's memory{of} that was taken since the profiler began: {peak}."
    reserved = max(memory.reserved_bytes) if memory.reserved_bytes else 0
    beyond = f"; torch holds up to {spoken(reserved, 'bytes')} of the device" if reserved else ""
    return f"Tensors on device {memory.device}{of} take {peak}{beyond}."
