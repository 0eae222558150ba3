"""Collectives: exposed, overlapped, how many and how large."""

import numpy as np

from diagnose import intervals as iv
from diagnose.attribution.causes import EXPOSED, WAITING
from diagnose.facts import STEP, Unknown, Value, capture_setting, nothing_helps
from diagnose.formulas.accounting import overlapped_share
from diagnose.metrics.communication.stragglers import straggler_share
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.ranks.collectives.kinds import itemsize
from diagnose.trace.arguments import listed, tensor_elements
from diagnose.trace.vocabulary import ANNOTATIONS, COMMUNICATION_RANGES

_SMALL_BYTES = 1 << 20


@metric("share", STEP, needs_gpu=False)
def exposed_communication_share(m: Measured) -> Value:
    """Exposed communication: collectives that no kernel hides, exposed transfer and exposed waiting together."""
    if m.device_unseen:
        return m.device_unseen
    return m.share(EXPOSED, *WAITING)


@metric("share", STEP, needs_gpu=False)
def transfer_share(m: Measured) -> Value:
    """Exposed transfer: exposed communication less the exposed waiting, what the network costs."""
    return m.job.undivided or m.share(EXPOSED)


@metric("share", STEP, needs_gpu=False)
def waiting_share(m: Measured) -> Value:
    """Exposed waiting: time inside exposed collectives in which this rank waits for a later one."""
    return m.job.undivided or m.share(*WAITING)


@metric("share", STEP, needs_gpu=False)
def passing_waiting_share(m: Measured) -> Value:
    """Exposed waiting for ranks that are late in turn, none of them steadily: it comes again with each collective.
    A rank that is only suspected to be late steadily counts as late in turn.
    """
    if m.job.undivided:
        return m.job.undivided
    steady = straggler_share(m)
    return max(m.share(*WAITING) - (0.0 if isinstance(steady, Unknown) else float(steady)), 0.0)


@metric("share", "communication time")
def overlapped_communication_share(m: Measured) -> Value:
    """Part of the collectives' time that overlaps with kernels."""
    gpu = m.timeline.gpu
    comm = iv.intervals(gpu.start[gpu.is_communication & m.in_steps], gpu.end[gpu.is_communication & m.in_steps])
    overlapped = overlapped_share(comm, iv.intervals(gpu.start[m.kernels], gpu.end[m.kernels]))
    if overlapped is None:
        return Unknown("no collective kernel ran", nothing_helps("the job does not communicate on the device"))
    return overlapped


@metric("count", needs_gpu=False)
def collectives_per_step(m: Measured) -> Value:
    """Collective kernels in a step; collective calls in a trace without a GPU."""
    if m.timeline.has_gpu:
        return m.timeline.steps.each(int((m.timeline.gpu.is_communication & m.in_steps).sum()))
    return m.timeline.steps.each(len(m.once(_sizes)))


def _sizes(m: Measured) -> list[int]:
    """Message bytes of the collectives in the counted steps, one for each call whose fields were recorded."""
    trace, table = m.timeline.trace, m.timeline.trace.collectives
    rows = table.row
    gpu_rows = set(m.timeline.gpu.row[m.in_steps & m.timeline.gpu.is_communication].tolist())
    on_kernels = [i for i, row in enumerate(rows.tolist()) if row in gpu_rows]
    start = trace.ts[rows] if len(rows) else np.zeros(0, np.int64)
    inside = iv.which_holds(m.timeline.steps.host, start) >= 0
    chosen = on_kernels or [i for i in np.flatnonzero(inside).tolist() if "wait" not in table.name[i]]
    sizes = []
    for i in chosen:
        elements = max(int(table.elements_in[i]), int(table.elements_out[i]))
        if elements > 0 and itemsize(table.dtype[i]):
            sizes.append(elements * itemsize(table.dtype[i]))
    return sizes if sizes or m.timeline.has_gpu else _host_sizes(m)


def _host_sizes(m: Measured) -> list[int]:
    """The same of collectives of the host, such as gloo's: by the tensors that their ranges record."""
    trace = m.timeline.trace
    rows = m.in_steps_of_host(m.timeline.rows_matching(COMMUNICATION_RANGES, *ANNOTATIONS))
    known = [trace.shapes[shape] for shape in trace.shape[rows].tolist() if shape >= 0]
    each = [tensor_elements(sizes) * itemsize(next(iter(listed(types)), "")) for sizes, types, _ in known]
    return [size for size in each if size > 0]


@metric("bytes", needs_gpu=False)
def mean_collective_bytes(m: Measured) -> Value:
    """Mean message size of the collectives whose size was recorded."""
    sizes = m.once(_sizes)
    return (
        sum(sizes) / len(sizes) if sizes else Unknown("no collective carries its size", capture_setting("torch >= 2.3"))
    )


@metric("share", "collectives", needs_gpu=False)
def small_collective_share(m: Measured) -> Value:
    """Collectives of less than 1 MiB, which pay latency instead of bandwidth, of those whose size was recorded."""
    sizes = m.once(_sizes)
    if not sizes:
        return Unknown("no collective carries its size", capture_setting("torch >= 2.3"))
    return sum(s < _SMALL_BYTES for s in sizes) / len(sizes)


@metric("flag", needs_gpu=False)
def sends_and_receives(m: Measured) -> Value:
    """Whether ranks send to single others, as the stages of a pipeline do."""
    return bool((m.messages.kind == "sendrecv").any())
