"""Changes for the worse on a GPU during a run: errors that were counted, links that became slower or went down."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

import msgspec

from diagnose.decoding import MOST_COUNT, finite
from diagnose.series.machine.findings import GpuChange

_COUNTED: Mapping[str, str] = {
    "ecc_uncorrected": "errors of the GPU's memory that could not be corrected",
    "ecc_corrected": "corrected errors of the GPU's memory",
    "remapped_rows": "replaced rows of the GPU's memory",
    "nvlink_errors": "errors of the GPU's NVLinks",
    "pcie_replays": "packets sent again over the GPU's PCIe link",
}
_UP: Mapping[str, str] = {
    "nvlinks": "NVLinks of the GPU that are up",
    "pcie_width": "lanes of the GPU's PCIe link",
    "pcie_generation": "generation of the GPU's PCIe link",
}
_SLEEPS, _IDLE = ("pcie_width", "pcie_generation"), "gpu_idle"
WORDS: Mapping[str, str] = {**_COUNTED, **_UP}


class GpuReading(msgspec.Struct, frozen=True):
    """The changed links and errors of a rank's GPU when the job had done `step` steps, in its loop `loop`.

    If the GPU is not known to be `awake`, the PCIe link does not count, since it sleeps while it is idle.
    """

    loop: int
    step: int
    awake: bool
    new: Mapping[str, float]


def gpu_reading_of(loop: int, step: int, line: Mapping[str, Any]) -> GpuReading | None:
    """The reading in a line of the log; None if it has none. Values that are not whole numbers from 0 are left out."""
    told, held_by = line.get("gpu"), line.get("held_by")
    if not isinstance(told, dict):
        return None
    values = {name: finite(told[name], 0, MOST_COUNT) for name in WORDS.keys() & told.keys()}
    awake = isinstance(held_by, list) and _IDLE not in held_by
    return GpuReading(loop, step, awake, {name: value for name, value in values.items() if value is not None})


def compared(readings: Sequence[GpuReading]) -> frozenset[str]:
    """The fields that were read again in a loop in which they were read before; only these can show a change."""
    found: set[str] = set()
    for _, group in groupby(readings, lambda one: one.loop):
        of_loop = list(group)
        for name in WORDS:
            read = _telling(of_loop, name)
            first = next((at for at, one in enumerate(read) if name in one.new), len(read))
            found |= {name} if first < len(read) - 1 else set()
    return frozenset(found)


def changes(rank: int, readings: Sequence[GpuReading], several: bool) -> Iterator[GpuChange]:
    """Yield the fields that grew or went down, each within its loop: another process may have had another GPU."""
    for _, group in groupby(readings, lambda one: one.loop):
        of_loop = list(group)
        for name in WORDS:
            seen = [(one.step, one.new[name]) for one in _telling(of_loop, name) if name in one.new]
            found = _grew(seen) if name in _COUNTED else _went_down(seen)
            if found is not None:
                yield _change(name, rank, several, *found)


def _telling(readings: Sequence[GpuReading], name: str) -> list[GpuReading]:
    return [one for one in readings if one.awake or name not in _SLEEPS]


def _grew(seen: Sequence[tuple[int, float]]) -> tuple[int, float, float, float] | None:
    """The step of the first growth, the values before and after, and the last value; a reset counter counts on."""
    steps = [(step, now - before) for (_, before), (step, now) in pairwise(seen) if now > before]
    if not steps:
        return None
    after = seen[0][1] + sum(more for _, more in steps)
    return steps[0][0], seen[0][1], after, after


def _went_down(seen: Sequence[tuple[int, float]]) -> tuple[int, float, float, float] | None:
    """The step of the drop, the highest value before it, the lowest after it, and the last value."""
    found = None
    most = 0.0
    for step, now in seen:
        most = max(most, now)
        if now < most and (found is None or now < found[2]):
            found = step, most, now, seen[-1][1]
    return found


def _change(name: str, rank: int, several: bool, step: int, before: float, after: float, last: float) -> GpuChange:
    on = f" on rank {rank}" if several else ""
    later = f", {last:,.0f} at last" if last != after else ""
    return GpuChange(
        what=WORDS[name],
        before=before,
        after=after,
        last=last,
        step=step,
        rank=rank,
        says=f"{WORDS[name]}: {before:,.0f} -> {after:,.0f} by step {step:,}{on}{later}",
    )
