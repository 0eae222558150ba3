"""Predict the size of a window from one step recorded before it, and fit the window to its limits.

A trial step is recorded without shapes, exported and thrown away. Text and time grow with the recorded steps; what
shapes add, and the memory for each byte of text, is measured (benchmarks/speed/capture_size.py). Times are of this
process on this machine, taken from the trial itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

SHAPES_TEXT = 1.5  # times the text without them
SHAPES_STOP = 3.5  # times the time until the profiler has stopped
MEMORY_PER_TEXT = 4.5  # bytes of memory for each byte of text, from the recording to the export
MEMORY_PER_TEXT_WITH_SHAPES = 6.5
MB = 1_000_000


@dataclass(frozen=True)
class CaptureSize:
    """The space and time that a capture takes.

    Attributes:
        text_bytes: of the exported trace, before it is compressed to about a tenth.
        memory_bytes: at its peak, on top of the job's.
        stall_s: seconds in which the training thread stands still: the profiler stops and exports.
    """

    text_bytes: int
    memory_bytes: int
    stall_s: float


@dataclass(frozen=True)
class TrialStep:
    """One step, recorded without shapes: its text, and the seconds to stop the profiler and to export."""

    text_bytes: int
    stop_s: float
    export_s: float

    def size(self, steps: int, shapes: bool) -> CaptureSize:
        """The size of a capture of `steps` steps."""
        text = self.text_bytes * steps * (SHAPES_TEXT if shapes else 1)
        stop = self.stop_s * steps * (SHAPES_STOP if shapes else 1)
        memory = text * (MEMORY_PER_TEXT_WITH_SHAPES if shapes else MEMORY_PER_TEXT)
        return CaptureSize(round(text), round(memory), stop + self.export_s * steps * (SHAPES_TEXT if shapes else 1))


@dataclass(frozen=True)
class CaptureLimits:
    """The most that a capture may take; None if there is no limit, or none is known.

    Attributes:
        budget_bytes: the most text of one rank.
        memory_bytes, disk_bytes: what all ranks of the host that record may take together.
        stall_s: a tenth of the least timeout of a collective: other ranks wait in one meanwhile.
        ranks: that record on this host.
    """

    budget_bytes: int
    memory_bytes: int | None = None
    disk_bytes: int | None = None
    stall_s: float | None = None
    ranks: int = 1

    def broken_by(self, size: CaptureSize, ranks: int | None = None) -> str:
        """The limit that a capture of `size` by so many ranks of the host breaks, and by how much; "" if none."""
        ranks = ranks or self.ranks
        if size.text_bytes > self.budget_bytes:
            return f"{shown(size.text_bytes)} of text, and the budget is {shown(self.budget_bytes)}"
        if self.stall_s is not None and size.stall_s > self.stall_s:
            return f"{size.stall_s:.1f} s of stall, and a tenth of the collectives' timeout is {self.stall_s:.1f} s"
        of_host = f" for {ranks} ranks of this host" if ranks > 1 else ""
        if self.memory_bytes is not None and size.memory_bytes * ranks > self.memory_bytes:
            most = shown(self.memory_bytes)
            return f"{shown(size.memory_bytes * ranks)} of memory{of_host}, and a quarter of what is free is {most}"
        if self.disk_bytes is not None and size.text_bytes * ranks > self.disk_bytes:
            most = shown(self.disk_bytes)
            return f"{shown(size.text_bytes * ranks)} of disk{of_host}, and half of what is free is {most}"
        return ""


@dataclass(frozen=True)
class CaptureChoice:
    """The choice of what is recorded.

    Attributes:
        steps: how many; 0 records nothing, and step times are kept alone.
        shapes: whether the shapes of tensors are.
        size: what is expected; None without a trial.
        because: which limit more would break, "" if nothing was cut.
    """

    steps: int
    shapes: bool = True
    size: CaptureSize | None = None
    because: str = ""

    def facts(self, asked: int) -> dict[str, object]:
        """The choice as the record has it."""
        return {
            "asked_steps": asked,
            "steps": self.steps,
            "shapes": self.shapes,
            "cut_because": self.because or None,
            **(asdict(self.size) if self.size else dict.fromkeys(("text_bytes", "memory_bytes", "stall_s"))),
        }


def fitted(
    trial: TrialStep, steps: int, limits: CaptureLimits, alone_if_need_be: bool = False, enough: int | None = None
) -> CaptureChoice:
    """The fullest capture of at most `steps` steps within the limits.

    Steps beyond those that are `enough` are dropped first, then shapes, then steps, then the other ranks of the host,
    if the rank may record `alone_if_need_be`.
    """
    because = limits.broken_by(trial.size(steps, shapes=True))
    asked = f"{steps} steps with shapes take {because}" if because else ""
    for number in range(steps, min(enough or steps, steps) - 1, -1):
        full = trial.size(number, shapes=True)
        if not limits.broken_by(full):
            return CaptureChoice(number, True, full, asked)
    for number, ranks in _poorer(steps, limits.ranks, alone_if_need_be):
        size = trial.size(number, shapes=False)
        if not limits.broken_by(size, ranks):
            return CaptureChoice(number, False, size, asked)
    least = trial.size(1, shapes=False)
    return CaptureChoice(0, False, least, f"one step without shapes takes {limits.broken_by(least)}")


def _poorer(steps: int, ranks: int, alone: bool) -> Iterator[tuple[int, int]]:
    yield from ((number, ranks) for number in range(steps, 0, -1))
    if alone and ranks > 1:
        yield 1, 1


def shown(size_bytes: float) -> str:
    """A size as sentences have it, such as "134 MB"."""
    scale, unit = (MB, "MB") if size_bytes >= MB else (1000, "kB")
    return f"{size_bytes / scale:.3g} {unit}" if size_bytes < 1000 * scale else f"{size_bytes / scale:,.0f} {unit}"
