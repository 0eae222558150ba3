"""Collectives: exposed, overlapped, how many and how large; and waiting for other ranks."""

import numpy as np

from diagnose import intervals as iv
from diagnose.attribution import EXPOSED
from diagnose.facts import STEP, Unknown, capture_setting, nothing_helps
from diagnose.formulas.accounting import overlapped_share
from diagnose.metrics.registry import CAPTURE_FAILED, Measured, Value, metric
from diagnose.ranks.collectives.kinds import itemsize

_SMALL_BYTES = 1 << 20


def _waiting_causes(m: Measured) -> tuple[str, ...]:
    return tuple(c for c in m.attribution.causes if c.startswith("late-rank-"))


@metric("share", STEP, needs_gpu=False)
def exposed_communication_share(m: Measured) -> Value:
    """Exposed communication: collectives that no kernel hides, exposed transfer and exposed waiting together."""
    if m.timeline.capture_failed:
        return CAPTURE_FAILED
    return m.share(EXPOSED, *_waiting_causes(m))


@metric("share", STEP, needs_gpu=False)
def transfer_share(m: Measured) -> Value:
    """Exposed transfer: exposed communication less the exposed waiting, what the network costs."""
    return m.share(EXPOSED) if m.job.matched else m.job.why_unmatched


@metric("share", STEP, needs_gpu=False)
def waiting_share(m: Measured) -> Value:
    """Exposed waiting: time inside exposed collectives in which this rank waits for a later one."""
    return m.share(*_waiting_causes(m)) if m.job.matched else m.job.why_unmatched


@metric("share", "communication time")
def overlapped_communication_share(m: Measured) -> Value:
    """Part of the collectives' time that runs beside kernels."""
    gpu = m.timeline.gpu
    comm = iv.intervals(gpu.start[gpu.is_communication & m.in_steps], gpu.end[gpu.is_communication & m.in_steps])
    if not len(comm):
        return Unknown("no collective kernel ran", nothing_helps("the job does not communicate on the device"))
    work = iv.intervals(gpu.start[m.kernels], gpu.end[m.kernels])
    return overlapped_share(comm, work)


@metric("count", needs_gpu=False)
def collectives_per_step(m: Measured) -> Value:
    """Collective kernels in a step; collective calls in a trace without a GPU."""
    if m.timeline.has_gpu:
        return int((m.timeline.gpu.is_communication & m.in_steps).sum()) / max(m.timeline.steps.count, 1)
    return len(_sizes(m)) / max(m.timeline.steps.count, 1)


def _sizes(m: Measured) -> list[int]:
    """Message bytes of the collectives in the counted steps, one for each call whose fields were recorded."""
    trace, table = m.timeline.trace, m.timeline.trace.collectives
    rows = table.row
    gpu_rows = set(m.timeline.gpu.row[m.in_steps & m.timeline.gpu.is_communication].tolist())
    on_kernels = [i for i, row in enumerate(rows.tolist()) if row in gpu_rows]
    host = m.timeline.steps.host
    start = trace.ts[rows] if len(rows) else np.zeros(0, np.int64)
    at = np.searchsorted(host[:, 0], start, side="right") - 1
    inside = (at >= 0) & (start < host[np.maximum(at, 0), 1])
    chosen = on_kernels or [i for i in np.flatnonzero(inside).tolist() if "wait" not in table.name[i]]
    found = []
    for i in chosen:
        elements = max(int(table.elements_in[i]), int(table.elements_out[i]))
        if elements > 0 and itemsize(table.dtype[i]):
            found.append(elements * itemsize(table.dtype[i]))
    return found


@metric("bytes", needs_gpu=False)
def mean_collective_bytes(m: Measured) -> Value:
    """Mean message size of the collectives whose size was recorded."""
    sizes = _sizes(m)
    return (
        sum(sizes) / len(sizes) if sizes else Unknown("no collective carries its size", capture_setting("torch >= 2.3"))
    )


@metric("share", "collectives", needs_gpu=False)
def small_collective_share(m: Measured) -> Value:
    """Collectives of less than 1 MiB, which pay latency instead of bandwidth, of those whose size was recorded."""
    sizes = _sizes(m)
    if not sizes:
        return Unknown("no collective carries its size", capture_setting("torch >= 2.3"))
    return sum(s < _SMALL_BYTES for s in sizes) / len(sizes)


@metric("flag", needs_gpu=False)
def searches_unused_parameters(m: Measured) -> Value:
    """Whether DDP walks the autograd graph for unused parameters in every step (find_unused_parameters=True)."""
    recorded = m.record.flag("ddp.find_unused_parameters")
    if recorded is not None:
        return recorded
    names = m.timeline.trace.names
    if any("search_unused_parameters" in n for n in names):
        return True
    if not any("DistributedDataParallel" in n or "reducer" in n for n in names):
        return Unknown(
            "no DistributedDataParallel range in the trace", nothing_helps("the model is not wrapped in DDP")
        )
    return False


@metric("flag", needs_gpu=False)
def uses_ddp(m: Measured) -> Value:
    """Whether the model is wrapped in DistributedDataParallel."""
    if m.record.get("ddp") is not None:
        return True
    return any("DistributedDataParallel" in n or "distributed.ddp.reducer" in n for n in m.timeline.trace.names)


@metric("count", needs_gpu=False)
def world_size(m: Measured) -> Value:
    """Ranks in the job, from the trace's distributedInfo."""
    info = m.timeline.trace.metadata.get("distributedInfo")
    size = info.get("world_size") if isinstance(info, dict) else None
    if isinstance(size, int):
        return size
    if m.job.ranks > 1:
        return m.job.ranks
    return Unknown(
        "the trace has no distributedInfo", nothing_helps("a single process", capture_setting("torch >= 1.13"))
    )


@metric("count", needs_gpu=False)
def ranks_analyzed(m: Measured) -> Value:
    """Ranks whose traces were given."""
    return m.job.ranks


@metric("share", STEP, needs_gpu=False)
def straggler_share(m: Measured) -> Value:
    """Time that the late ranks cost the others, of their steps: what these wait, or how far one late rank is behind by
    its own doing where waiting hides behind other work; 0 when no rank stands out.
    """
    if m.timeline.capture_failed:
        return CAPTURE_FAILED
    if _single_process(m):
        return 0.0
    return m.job.straggler_share if m.job.matched else m.job.why_unmatched


@metric("share", STEP, needs_gpu=False)
def straggler_cure_share(m: Measured) -> Value:
    """What goes of the step when the late ranks are as fast as the median of the others, by replaying all ranks
    together: less than the others wait for them where further ranks are nearly as late, and in a pipeline, whose stages
    wait anyway. Where that replay misses the measured step, `straggler_share`.
    """
    if m.timeline.capture_failed:
        return CAPTURE_FAILED
    if _single_process(m):
        return 0.0
    return m.job.straggler_cure_share[1] if m.job.matched else m.job.why_unmatched


@metric("share", STEP, needs_gpu=False)
def least_straggler_cure_share(m: Measured) -> Value:
    """What goes of the step when the late ranks are as fast as the slowest of the others, by replaying all ranks
    together; 0 where that replay misses the measured step.
    """
    return m.job.straggler_cure_share[0] if m.job.matched else m.job.why_unmatched


@metric("flag", needs_gpu=False)
def late_rank_may_be_missing(m: Measured) -> Value:
    """Whether the ranks wait in collectives for a time that no analysed rank accounts for, and ranks are missing."""
    return m.job.late_rank_missing


@metric("flag")
def sends_and_receives(m: Measured) -> Value:
    """Whether ranks send to single others, as the stages of a pipeline do."""
    return bool((m.messages.kind == "sendrecv").any())


def _single_process(m: Measured) -> bool:
    size = world_size(m)
    return m.job.ranks == 1 and (isinstance(size, Unknown) or int(size) == 1)


@metric("text", needs_gpu=False)
def straggler_cause(m: Measured) -> Value:
    """What makes the worst rank late: data, host, slower_kernels, more_work, gc, checkpoint, link, unknown or none."""
    if _single_process(m):
        return "none"
    return m.job.straggler_cause if m.job.matched else m.job.why_unmatched
