"""How kernels fill the device: warps that it holds at once, waves of blocks, and the part of the last wave."""

import msgspec
import numpy as np

from diagnose.arrays import Floats, Ints
from diagnose.facts import STEP, Unknown, Value, capture_setting
from diagnose.formulas.kineto import tail_share, waves
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric

MOST = 0.8  # of the kernels' time: of less a mean says nothing of the step
NOT_DESCRIBED = Unknown(
    "the trace does not describe how most of its kernels were launched",
    capture_setting("a CUDA build of PyTorch 2.0 or later, which writes blocks, warps and occupancy"),
)


class Launches(msgspec.Struct, frozen=True):
    """How activities fill the device, each NaN where it is unknown: shape (activities,)."""

    occupancy: Floats
    waves: Floats
    tail_share: Floats


def launches_of(m: Measured, at: Ints) -> Launches:
    """Of the activities at these positions, by what Kineto writes of their launches."""
    trace, row = m.timeline.trace, m.timeline.gpu.row[at]
    threads = m.timeline.device_properties.get("maxThreadsPerMultiprocessor")
    percent = trace.occupancy_percent[row]
    occupancy = np.where(percent > 0, percent / 100, np.nan)
    if not isinstance(threads, int) or threads <= 0:
        unknown = np.full(len(at), np.nan)
        return Launches(occupancy, unknown, unknown)
    found = waves(
        trace.blocks_per_sm[row], trace.block_threads[row].astype(np.int64), percent.astype(np.int64), threads
    )
    return Launches(occupancy, found, tail_share(found))


def _over_kernels(m: Measured) -> tuple[Launches, Ints]:
    at = np.flatnonzero(m.kernels)
    return launches_of(m, at), m.own_time[at]


def _described(m: Measured, what: str) -> tuple[Floats, Ints] | Unknown:
    """The values of the kernels that have one and their nanoseconds, where these are most of the time."""
    at = np.flatnonzero(m.kernels)
    value, ns = getattr(launches_of(m, at), what), m.own_time[at]
    known = ~np.isnan(value)
    if not ns[known].any() or ns[known].sum() < MOST * ns.sum():
        return NOT_DESCRIBED
    return value[known], ns[known]


@metric("share", "the warps that the device can hold")
def occupancy_share(m: Measured) -> Value:
    """Warps that the multiprocessors hold while kernels run, by Kineto's estimate; mean over the kernels' time."""
    found = _described(m, "occupancy")
    return found if isinstance(found, Unknown) else float(np.average(found[0], weights=found[1]))


@metric("share", STEP)
def tail_wave_share(m: Measured) -> Value:
    """Time in which the last wave of blocks leaves multiprocessors idle, were all blocks of a kernel equally long."""
    found = _described(m, "tail_share")
    if isinstance(found, Unknown):
        return found
    return float((found[0] * found[1]).sum()) / max(m.attribution.total_ns, 1)
