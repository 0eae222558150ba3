"""The readings of the machine in a step log, checked one by one, as columns in the order of steps."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from diagnose.arrays import Floats, Ints
from diagnose.decoding import MOST_COUNT, finite
from diagnose.series.machine.gpu_changes import GpuReading
from diagnose.series.machine.quantities import OTHERS, QUANTITIES

MOST_READINGS = 200_000
_LONGEST_S = 1e7
_LARGEST = 1e18
_MOST_REASONS = 16
_PARTS = ("allowed_cores_cpu_ns", "stolen_ns", "process_cpu_ns", "workers_cpu_ns")
_NAMES = frozenset((*(one.name for one in QUANTITIES), *_PARTS)) - {OTHERS}
_PER = {one.name: one.per for one in QUANTITIES}
_MOST = {one.name: 1.0 for one in QUANTITIES if one.unit == "share"}  # two clocks, or several threads, make more


class MachineReading(msgspec.Struct, frozen=True):
    """One line: the steps behind the job, what is so, what was counted per second over the last `over_s`."""

    step: int
    over_s: float
    values: Mapping[str, float]
    held_by: tuple[str, ...] | None


class MachineReadings(msgspec.Struct, frozen=True):
    """The readings of one rank's machine.

    Attributes:
        rank: the rank.
        step: the steps that the job had done, shape (n,), not decreasing.
        over_s: seconds since the previous reading, over which rates are taken; 0 for a first one, shape (n,).
        values: values by the name of the quantity, in its unit, shape (n,); NaN if not read.
        held_by: what limited the clock of the GPU; None if not recorded.
        why_no_gpu: why nothing of a GPU was read, "" if it was.
        of_gpu: changes of its links and errors, in the order of the lines.
        why_none: why nothing was read, or no more; "" if the log gives no reason.
    """

    rank: int
    step: Ints
    over_s: Floats
    values: Mapping[str, Floats]
    held_by: Sequence[tuple[str, ...] | None]
    why_no_gpu: str = ""
    of_gpu: Sequence[GpuReading] = ()
    why_none: str = ""

    def __len__(self) -> int:
        return len(self.step)


def reading_of(line: Mapping[str, Any]) -> MachineReading | None:
    """The reading of a line; None if it is none. Values that are not finite numbers from 0 are left out."""
    step, gauges, rates = line.get("step"), line.get("gauges"), line.get("rates", {})
    if type(step) is not int or not 0 <= step < MOST_COUNT:
        return None
    if not isinstance(gauges, dict) or not isinstance(rates, dict):
        return None
    told = {name: finite(of[name], 0, _LARGEST) for of in (gauges, rates) for name in _NAMES & of.keys()}
    values = {name: value for name, value in told.items() if value is not None}
    held = line.get("held_by")
    reasons = tuple(str(one)[:40] for one in held[:_MOST_REASONS]) if isinstance(held, list) else None
    return MachineReading(step, finite(line.get("over_s"), 0, _LONGEST_S) or 0.0, values, reasons)


def columns(
    rank: int,
    readings: Sequence[MachineReading],
    why_no_gpu: str = "",
    of_gpu: Sequence[GpuReading] = (),
    why_none: str = "",
) -> MachineReadings:
    """The readings of a rank; those of steps that a resumed job made again are left out."""
    kept: list[MachineReading] = []
    for one in reversed(readings):
        if not kept or one.step <= kept[-1].step:
            kept.append(one)
    kept.reverse()
    names = sorted(set().union(*(one.values for one in kept)))
    values = {name: np.array([one.values.get(name, np.nan) for one in kept]) / _PER.get(name, 1.0) for name in names}
    values = {name: np.minimum(column, _MOST.get(name, np.inf)) for name, column in values.items()}
    if set(_PARTS) - {"stolen_ns"} <= values.keys():
        stolen = np.nan_to_num(values["stolen_ns"]) if "stolen_ns" in values else 0.0
        alls, own, workers = (values[name] for name in ("allowed_cores_cpu_ns", "process_cpu_ns", "workers_cpu_ns"))
        values[OTHERS] = np.maximum((alls - workers) / _PER[OTHERS] - own - stolen, 0.0)
    step, over_s = np.array([one.step for one in kept], np.int64), np.array([one.over_s for one in kept], np.float64)
    held_by = [one.held_by for one in kept]
    return MachineReadings(rank, step, over_s, values, held_by, why_no_gpu, of_gpu, why_none)
