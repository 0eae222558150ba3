"""Utilisation of the device by kernels: resident warps, waves of blocks, and the part of the last wave."""

from collections.abc import Callable

import numpy as np

from diagnose.arrays import Floats, Ints
from diagnose.facts import STEP, Unknown, Value, capture_setting
from diagnose.formulas.kineto import tail_share, waves
from diagnose.intervals import blocks
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric

MOST = 0.8  # of the kernels' time: a mean over less does not represent the step
NOT_DESCRIBED = Unknown(
    "the trace does not describe how most of its kernels were launched",
    capture_setting("a CUDA build of PyTorch 2.0 or later, which writes blocks, warps and occupancy"),
)


def occupancy_of(m: Measured, at: Ints) -> Floats:
    """The share of the warps that a multiprocessor can hold, of the activities at these positions; NaN unknown."""
    percent = m.timeline.trace.occupancy_percent[m.timeline.gpu.row[at]]
    return np.where(percent > 0, percent / 100, np.nan)


def waves_of(m: Measured, at: Ints) -> Floats:
    """How many times these activities fill the device with blocks, by Kineto's record of their launches; NaN if
    unknown.
    """
    trace, row, found = m.timeline.trace, m.timeline.gpu.row, np.full(len(at), np.nan)
    threads = m.timeline.device_properties.get("maxThreadsPerMultiprocessor")
    if isinstance(threads, int) and threads > 0:
        for b in blocks(len(at)):
            of = row[at[b]]
            block_threads, percent = trace.block_threads[of].astype(np.int64), trace.occupancy_percent[of]
            found[b] = waves(trace.blocks_per_sm[of], block_threads, percent.astype(np.int64), threads)
    return found


def tail_share_of(often: Floats) -> Floats:
    """The part of their time in which the last wave leaves multiprocessors idle, of kernels with so many waves; NaN
    unknown.
    """
    found = np.empty(len(often))
    for b in blocks(len(often)):
        found[b] = tail_share(often[b])
    return found


def _described(m: Measured, of: Callable[[Measured, Ints], Floats]) -> tuple[Floats, Ints] | Unknown:
    """The values of the kernels that have one and their nanoseconds, if these are most of the time; else Unknown."""
    at = np.flatnonzero(m.kernels)
    value, ns = of(m, at), m.own_time[at]
    known = ~np.isnan(value)
    if not ns[known].any() or ns[known].sum() < MOST * ns.sum():
        return NOT_DESCRIBED
    return value[known], ns[known]


@metric("share", "the warps that the device can hold")
def occupancy_share(m: Measured) -> Value:
    """Warps that the multiprocessors hold while kernels run, by Kineto's estimate; mean over the kernels' time."""
    found = _described(m, occupancy_of)
    return found if isinstance(found, Unknown) else float(np.average(found[0], weights=found[1]))


@metric("share", STEP)
def tail_wave_share(m: Measured) -> Value:
    """Time in which the last wave of blocks leaves multiprocessors idle, were all blocks of a kernel equally long."""
    found = _described(m, lambda m, at: tail_share_of(waves_of(m, at)))
    if isinstance(found, Unknown):
        return found
    return m.attribution.share((found[0] * found[1]).sum())
