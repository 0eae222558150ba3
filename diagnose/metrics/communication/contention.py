"""The slowdown of kernels by the collectives that overlap with them."""

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Array, Ints, combined
from diagnose.facts import STEP, Unknown, Value, another_run, capture_setting
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.unknowns import NO_SHAPES

_ENOUGH, _LONG_NS, _COVERED = 3, 20_000, 0.9
_COMPARABLE = 0.05
MORE_SHAPES = another_run("capture five steps or more with record_shapes=True")
SIX_STEPS = capture_setting("diagnose run --steps 6")


def _slowed(m: Measured) -> tuple[float, float] | Unknown:
    """Nanoseconds of the kernels that collectives cover, and of as many like them that ran alone."""
    gpu, trace = m.timeline.gpu, m.timeline.trace
    comm = iv.intervals(gpu.start[gpu.is_communication], gpu.end[gpu.is_communication])
    rows = np.flatnonzero(m.kernels & (gpu.end - gpu.start >= _LONG_NS) & (m.operator >= 0))
    shape = trace.shape[m.operator[rows]]
    rows, shape = rows[shape >= 0], shape[shape >= 0]
    if not len(rows):
        return NO_SHAPES
    lasts = gpu.end[rows] - gpu.start[rows]
    covered = iv.coverage(comm, gpu.start[rows], gpu.end[rows])
    beside = without = 0.0
    mostly = covered > _COVERED * lasts
    for same in _alike(trace.name[gpu.row[rows]], trace.name[m.operator[rows]], shape) if mostly.any() else ():
        over, alone = same[mostly[same]], same[covered[same] == 0]
        if len(over) >= _ENOUGH and len(alone) >= _ENOUGH:
            beside += len(over) * float(np.median(lasts[over]))
            without += len(over) * float(np.median(lasts[alone]))
    if beside < _COMPARABLE * lasts.sum():
        why = "too few kernels ran both beside collectives and alone, with the same shapes"
        return Unknown(why, SIX_STEPS if m.record else MORE_SHAPES)
    return beside, without


def _alike(*keys: Array) -> list[Ints]:
    """Positions that have the same keys."""
    number = combined(*keys)
    order = np.argsort(number, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(number[order])) + 1)


@metric("factor")
def overlap_slowdown_factor(m: Measured) -> Value:
    """Duration of a kernel that overlaps with a collective over that of the same kernel, of the same shapes, alone."""
    slowed = m.once(_slowed)
    return slowed if isinstance(slowed, Unknown) else slowed[0] / slowed[1]


@metric("share", STEP)
def overlap_slowdown_share(m: Measured) -> Value:
    """Time that kernels take longer while they overlap with collectives than alone, of those that can be compared."""
    slowed = m.once(_slowed)
    if isinstance(slowed, Unknown):
        return slowed
    return min(m.attribution.share(max(slowed[0] - slowed[1], 0.0)), 1.0)
