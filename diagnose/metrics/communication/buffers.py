"""DistributedDataParallel's broadcast of the model's buffers from rank 0, before each forward pass."""

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Ints
from diagnose.attribution.causes import EXPOSED, IDLE
from diagnose.facts import DIAGNOSE_RUN, STEP, Unknown, Value
from diagnose.metrics.communication.gradients import FORWARD
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.roofline import owners
from diagnose.trace.vocabulary import ANNOTATIONS, PYTHON

IN_PYTHON = r"torch/nn/parallel/distributed\.py\(\d+\): _sync_buffers$"
BROADCAST = r"c10d::broadcast_$|[a-z]+:broadcast$"
PACKING = "aten::flatten_dense_tensors"
STEPS = (PACKING, "aten::unflatten_dense_tensors", "aten::copy_", "record_param_comms")


@metric("share", STEP, needs_gpu=False)
def buffer_sync_share(m: Measured) -> Value:
    """Time that DDP's broadcast of buffers costs: the device idles during it, communicates for it alone, or copies for
    it; without a GPU, all of it.
    """
    if m.device_unseen:
        return m.device_unseen
    spans, gpu, sent = m.once(_spans), m.timeline.gpu, m.messages
    if not m.timeline.has_gpu:
        return m.counted_share(spans)
    launched = m.in_steps & iv.holds(spans, gpu.launch_start)
    kernels = launched & ~gpu.is_communication
    broadcasts = sent.when(launched[sent.activity])
    return m.pieces_share(
        iv.union(
            _idle(m, spans),
            iv.intersect(m.attribution.pieces(EXPOSED), broadcasts),
            iv.intersect(m.attribution.counted, iv.intervals(gpu.start[kernels], gpu.end[kernels])),
        )
    )


@metric("share", STEP, needs_gpu=False)
def buffer_sync_host_share(m: Measured) -> Value:
    """The device idles while the host packs, sends and unpacks the buffers that DDP broadcasts; without a GPU, the host
    packs and unpacks them.
    """
    if m.device_unseen:
        return m.device_unseen
    spans = m.once(_spans)
    if m.timeline.has_gpu:
        return m.pieces_share(_idle(m, spans))
    sends = m.timeline.rows_matching(BROADCAST, *ANNOTATIONS)
    trace = m.timeline.trace
    return m.counted_share(iv.subtract(spans, iv.intervals(trace.ts[sends], trace.ends(sends))))


@metric("flag", needs_gpu=False)
def broadcasts_buffers(m: Measured) -> Value:
    """Whether DDP broadcasts the model's buffers before forward passes: by the record, else by the trace."""
    recorded = m.record.flag("ddp.broadcast_buffers")
    if recorded is not None:
        return recorded
    if len(m.once(_spans)):
        return True
    return Unknown("the trace shows no broadcast of buffers, and no capture record says", DIAGNOSE_RUN)


def _idle(m: Measured, spans: iv.Intervals) -> iv.Intervals:
    return iv.intersect(m.attribution.pieces(*IDLE), spans)


def _spans(m: Measured) -> iv.Intervals:
    """The instants on the host at which buffers are packed, sent and unpacked.

    Recognised by DDP's own function if stacks were recorded; else, in the forward range of the wrapper, by the
    operators around a broadcast that pack and unpack, up to the first other operator.
    """
    trace, line = m.timeline.trace, m.timeline
    in_python = line.rows_matching(IN_PYTHON, *PYTHON)
    if len(in_python):
        return iv.intervals(trace.ts[in_python], trace.ends(in_python))
    return _runs_with_broadcasts(m)


def _runs_with_broadcasts(m: Measured) -> iv.Intervals:
    """The runs of operators that pack and broadcast, directly inside a forward range, each as one interval."""
    trace = m.timeline.trace
    rows, forward = _directly_in_forwards(m)
    sends = m.timeline.matching(BROADCAST, *ANNOTATIONS)[rows]
    packs, others = (trace.named(names.__contains__)[rows] for names in ((PACKING,), STEPS))
    belongs = sends | others
    run = np.cumsum((np.diff(belongs, prepend=False)) | (np.diff(forward, prepend=-1) != 0))
    whole = np.intersect1d(run[sends], run[packs & belongs])
    first, last = np.searchsorted(run, whole), np.searchsorted(run, whole, side="right") - 1
    return iv.intervals(trace.ts[rows[first]], trace.ends(rows[last]))


def _directly_in_forwards(m: Measured) -> tuple[Ints, Ints]:
    """Rows of the operators directly inside a forward range of the wrapper, in order, and the row of that range."""
    trace, line = m.timeline.trace, m.timeline
    ranges = line.rows_matching(FORWARD, *ANNOTATIONS)
    spans = iv.intervals(trace.ts[ranges], trace.ends(ranges))
    ranges = ranges[trace.dur[ranges] > 0]
    inside, around = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for thread in sorted({*zip(trace.pid[ranges].tolist(), trace.tid[ranges].tolist(), strict=True)}):
        rows = np.flatnonzero(trace.rows_of(*ANNOTATIONS) & line.on_threads(frozenset((thread,))))
        own = ranges[(trace.pid[ranges] == thread[0]) & (trace.tid[ranges] == thread[1])]
        for row, held in owners.directly_inside(trace, own, rows):
            inside.append(held[iv.holds(spans, trace.ts[held])])
            around.append(np.full(len(inside[-1]), row))
    held, by = np.concatenate(inside), np.concatenate(around)
    order = np.lexsort((held, trace.ts[held], by))
    return held[order], by[order]
