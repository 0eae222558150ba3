"""The links between ranks: how fast they are, and what collectives do to the kernels beside them."""

import math

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Ints, Mask
from diagnose.facts import DIAGNOSE_RUN, STEP, Unknown, another_run, capture_setting
from diagnose.metrics.communication import world_size
from diagnose.metrics.registry import NO_SHAPES, Measured, Value, metric

_ENOUGH, _LONG_NS, _COVERED = 3, 20_000, 0.9
_COMPARABLE = 0.05
MORE_SHAPES = another_run("capture five steps or more with record_shapes=True")
SIX_STEPS = capture_setting("diagnose run --steps 6")


@metric("count", needs_gpu=False)
def nodes(m: Measured) -> Value:
    """Machines of the job: by Slurm, else ranks over the GPUs that the trace lists for this one."""
    stated = m.record.text("slurm.SLURM_NNODES")
    if stated is not None:
        return int(stated)
    size, listed = world_size(m), m.timeline.trace.metadata.get("deviceProperties")
    gpus = len(listed) if isinstance(listed, list) else 0
    if isinstance(size, Unknown):
        return size
    if int(size) <= max(gpus, 1):
        return 1
    if gpus > 1:
        return math.ceil(int(size) / gpus)
    return Unknown("the trace does not say how many GPUs a node has", DIAGNOSE_RUN)


@metric("bytes_per_s")
def bus_bytes_per_s(m: Measured) -> Value:
    """Bus bandwidth that the best of the messages of 16 MiB or more reach, waiting for late ranks taken out."""
    return m.job.bus_bytes_per_s


@metric("share", "one direction of the GPU's NVLink")
def bus_rate_share(m: Measured) -> Value:
    """Bus bandwidth of large messages over what the links between GPUs of one node carry in one direction."""
    rate, count = bus_bytes_per_s(m), nodes(m)
    if isinstance(rate, Unknown):
        return rate
    if isinstance(count, Unknown) or int(count) > 1:
        why = "the bandwidth of the network between nodes is not known"
        return Unknown(why, another_run("compare bus_bytes_per_s with nccl-tests on the same nodes"))
    link = m.gpu_info.nvlink_one_way_gbs if m.gpu_info else None
    if not link:
        return Unknown("the GPU has no NVLink, or the table does not know it", another_run("compare with nccl-tests"))
    return float(rate) / (link * 1e9)


@metric("bytes_per_s")
def expected_bus_bytes_per_s(m: Measured) -> Value:
    """Bus bandwidth of messages of 16 MiB or more by the size curve of a node's links, of a ring between nodes."""
    found = m.job.bus_reached
    return found if isinstance(found, Unknown) else found.expected


@metric("share", "bus bandwidth to expect of the links at these sizes")
def curve_rate_share(m: Measured) -> Value:
    """Bus bandwidth of large collectives over `expected_bus_bytes_per_s`, in the group where they take longest; in a
    job of several nodes of the groups that span some.
    """
    found = m.job.bus_reached
    return found if isinstance(found, Unknown) else found.measured / found.expected


@metric("count")
def comparable_groups(m: Measured) -> Value:
    """Process groups about as slow, and as large, as that whose large messages take longest, itself included."""
    found = m.job.bus_reached
    return found if isinstance(found, Unknown) else found.groups


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
    for own in _alike(np.stack((trace.name[gpu.row[rows]], trace.name[m.operator[rows]], shape))):
        if (own & over).sum() >= _ENOUGH and (own & alone).sum() >= _ENOUGH:
            number = int((own & over).sum())
            beside += number * float(np.median(lasts[own & over]))
            without += number * float(np.median(lasts[own & alone]))
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
    found = _slowed(m)
    return found if isinstance(found, Unknown) else found[0] / found[1]


@metric("share", STEP)
def overlap_slowdown_share(m: Measured) -> Value:
    """Time that kernels take beside collectives above what they take alone, of those that can be compared."""
    found = _slowed(m)
    if isinstance(found, Unknown):
        return found
    return min(max(found[0] - found[1], 0.0) / max(m.attribution.total_ns, 1), 1.0)
