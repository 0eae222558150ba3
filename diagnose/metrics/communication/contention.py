"""The slowdown of kernels, and of operators on a host without a GPU, by the collectives that overlap with them."""

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Array, Ints, combined
from diagnose.attribution.operator_kinds import kind_of
from diagnose.facts import STEP, Unknown, Value, another_run, capture_setting
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.unknowns import NO_SHAPES
from diagnose.trace.vocabulary import ANNOTATIONS, COMMUNICATION_RANGES, OPS

_ENOUGH, _LONG_NS, _COVERED = 3, 20_000, 0.9
_COMPARABLE = 0.05
MORE_SHAPES = another_run("capture five steps or more with record_shapes=True")
Work = tuple[tuple[Array, ...], Array, Ints, Ints, iv.Intervals]
SIX_STEPS = capture_setting("diagnose run --steps 6")


def _slowed(m: Measured) -> tuple[float, float] | Unknown:
    """Nanoseconds of the kernels, without a GPU of the operators, that collectives cover, and of as many alone."""
    names, shape, start, end, sending = _of_device(m) if m.timeline.has_gpu else _of_host(m)
    if not len(shape):
        return NO_SHAPES
    lasts, covered = end - start, iv.coverage(sending, start, end)
    beside = without = 0.0
    mostly = covered > _COVERED * lasts
    on_host = not m.timeline.has_gpu  # a thread that loses its core does so at times, for long: no median shows it
    for same in _alike(*names, shape) if mostly.any() else ():
        over, alone = same[mostly[same]], same[covered[same] == 0]
        if len(over) >= _ENOUGH and len(alone) >= _ENOUGH and (usual := float(np.median(lasts[alone]))) >= _LONG_NS:
            beside += float(lasts[over].sum() if on_host else len(over) * np.median(lasts[over]))
            without += len(over) * usual
    if beside < _COMPARABLE * lasts.sum():
        what = "operators" if on_host else "kernels"
        why = f"too few {what} ran both beside collectives and alone, with the same shapes"
        return Unknown(why, SIX_STEPS if m.record else MORE_SHAPES)
    return beside, without


def _of_device(m: Measured) -> Work:
    """Kernels, with their names and those of their operators; and when collectives are in flight."""
    gpu, trace = m.timeline.gpu, m.timeline.trace
    rows = np.flatnonzero(m.kernels & (gpu.end - gpu.start >= _LONG_NS) & (m.operator >= 0))
    rows = rows[trace.shape[m.operator[rows]] >= 0]
    operator = m.operator[rows]
    sending = iv.intervals(gpu.start[gpu.is_communication], gpu.end[gpu.is_communication])
    names = (trace.name[gpu.row[rows]], trace.name[operator])
    return names, trace.shape[operator], gpu.start[rows], gpu.end[rows], sending


def _of_host(m: Measured) -> Work:
    """Operators of the threads that do not send, with their names; and when collectives are in flight."""
    trace, sends = m.timeline.trace, m.timeline.rows_matching(COMMUNICATION_RANGES, *ANNOTATIONS)
    computes = np.array([kind_of(name) is not None for name in trace.names], bool)[trace.name]
    rows = np.flatnonzero(computes & trace.rows_of(*OPS) & (trace.shape >= 0) & ~np.isin(trace.tid, trace.tid[sends]))
    rows = rows[iv.holds(m.attribution.windows, trace.ts[rows])]
    sending = iv.intervals(trace.ts[sends], trace.ends(sends))
    return (trace.name[rows],), trace.shape[rows], trace.ts[rows], trace.ends(rows), sending


def _alike(*keys: Array) -> list[Ints]:
    """Positions that have the same keys."""
    number = combined(*keys)
    order = np.argsort(number, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(number[order])) + 1)


@metric("factor", needs_gpu=False)
def overlap_slowdown_factor(m: Measured) -> Value:
    """Duration of a kernel, without a GPU of an operator, beside a collective over that of the same one, of the same
    shapes, alone.
    """
    slowed = m.once(_slowed)
    return slowed if isinstance(slowed, Unknown) else slowed[0] / slowed[1]


@metric("share", STEP)
def overlap_slowdown_share(m: Measured) -> Value:
    """Time that kernels take longer while they overlap with collectives than alone, of those that can be compared."""
    slowed = m.once(_slowed)
    if isinstance(slowed, Unknown):
        return slowed
    return min(m.attribution.share(max(slowed[0] - slowed[1], 0.0)), 1.0)
