"""What collectives do to the kernels that run beside them."""

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Ints, Mask
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
    over, alone = covered > _COVERED * lasts, covered == 0
    beside = without = 0.0
    for same in _alike(np.stack((trace.name[gpu.row[rows]], trace.name[m.operator[rows]], shape))):
        if (same & over).sum() >= _ENOUGH and (same & alone).sum() >= _ENOUGH:
            number = int((same & over).sum())
            beside += number * float(np.median(lasts[same & over]))
            without += number * float(np.median(lasts[same & alone]))
    if beside < _COMPARABLE * lasts.sum():
        why = "too few kernels ran both beside collectives and alone, with the same shapes"
        return Unknown(why, SIX_STEPS if m.record else MORE_SHAPES)
    return beside, without


def _alike(keys: Ints) -> list[Mask]:
    _, number = np.unique(keys, axis=1, return_inverse=True)
    flat = number.reshape(-1)
    return [flat == i for i in range(int(flat.max()) + 1)]


@metric("factor")
def overlap_slowdown_factor(m: Measured) -> Value:
    """How much longer a kernel takes beside a collective than the same one, of the same shapes, alone."""
    slowed = _slowed(m)
    return slowed if isinstance(slowed, Unknown) else slowed[0] / slowed[1]


@metric("share", STEP)
def overlap_slowdown_share(m: Measured) -> Value:
    """Time that kernels take beside collectives above what they take alone, of those that can be compared."""
    slowed = _slowed(m)
    if isinstance(slowed, Unknown):
        return slowed
    return min(max(slowed[0] - slowed[1], 0.0) / max(m.attribution.total_ns, 1), 1.0)
