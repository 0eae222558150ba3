"""Events that cannot have happened as recorded: zero or far-off timestamps and impossible durations.

The durations that pass can be added up in 63 bits, as the differences of the times can.
"""

import numpy as np

from diagnose.arrays import Mask, combined
from diagnose.trace.columns import Trace
from diagnose.trace.vocabulary import GPU_CATEGORIES

_FAR_NS = 60_000_000_000
_EACH = 256  # of so many events one is looked at first
_IMPOSSIBLE_OVERLAP_NS = 100_000_000
_IMPOSSIBLE_COVERS = 2
_FEW = 0.02  # of the events
_LONGEST_TRACE_NS = 1 << 50  # 13 days
_MOST_TIME_NS = 1 << 60  # of all events of a trace together


def without_impossible_events(trace: Trace) -> Trace:
    """The trace without what is impossible, the rest untouched; each kind is booked in `trace.loss`."""
    gpu = trace.rows_of(*GPU_CATEGORIES)
    bad = {
        "negative-duration": trace.dur < 0,
        "timestamp-outside-window": _far_from_host(trace, gpu),
        "impossible-duration": _covers_successors(trace, gpu),
    }
    drop = np.zeros(len(trace), bool)
    for kind, rows in bad.items():
        new = rows & ~drop
        if new.any():
            trace.loss.count(kind, events=int(new.sum()))
            drop |= new
    kept = trace.select(~drop) if drop.any() else trace
    return _bounded(kept) if len(kept) else kept


def _bounded(trace: Trace) -> Trace:
    """The trace without events days away from most others, or so long that the durations could not be added up."""
    far, long = np.zeros(len(trace), bool), np.zeros(len(trace), bool)
    if int(trace.ts.max()) - int(trace.ts.min()) > _LONGEST_TRACE_NS // 2:
        middle = int(np.partition(trace.ts, len(trace) // 2)[len(trace) // 2])
        far = np.abs(trace.ts - middle) > _LONGEST_TRACE_NS // 2
        far &= far.mean() <= _FEW  # more of them are on another clock, and not wrong
    if float(trace.dur[~far].sum(dtype=np.float64)) > _MOST_TIME_NS:
        long = ~far & (trace.dur > _MOST_TIME_NS // len(trace))
    for kind, rows in (("timestamp-outside-window", far), ("impossible-duration", long)):
        if rows.any():
            trace.loss.count(kind, events=int(rows.sum()))
    return trace.select(~(far | long)) if (far | long).any() else trace


def _far_from_host(trace: Trace, gpu: Mask) -> Mask:
    """GPU events stamped over a minute away from everything the host did; CUPTI writes zeros for lost stamps."""
    far = np.zeros(len(trace), bool)
    if not gpu.any() or _near_some_of_host(trace, gpu):
        return far
    host = ~gpu & (trace.pid >= 0)
    if not host.any():
        return far
    first, last = int(trace.ts[host].min()), int(trace.ends(host).max())
    zero = (trace.ts == 0) & (trace.dur == 0) & (first > 1_000_000)
    return gpu & (zero | (trace.ts < first - _FAR_NS) | (trace.ts > last + _FAR_NS))


def _near_some_of_host(trace: Trace, gpu: Mask) -> bool:
    """Whether a few of the host's events show already that none of the GPU's is far away, as in nearly every trace."""
    rows = np.arange(0, len(trace), _EACH)
    rows = rows[~gpu[rows] & (trace.pid[rows] >= 0)]
    if not len(rows):
        return False
    stamps, first, last = trace.ts[gpu], int(trace.ts[rows].min()), int(trace.ends(rows).max())
    near = first - _FAR_NS <= stamps.min() and stamps.max() <= last + _FAR_NS
    return bool(near and stamps.min() > 0)


def _covers_successors(trace: Trace, gpu: Mask) -> Mask:
    """GPU events that run long past the start of several later events of their own stream, which is in order."""
    bad = np.zeros(len(trace), bool)
    rows = np.flatnonzero(gpu)
    if not len(rows):
        return bad
    rows = rows[np.argsort(trace.ts[rows], kind="stable")]
    streams = trace.streams(rows)
    by_stream = np.argsort(combined(trace.pid[rows], streams), kind="stable")
    order, streams = rows[by_stream], streams[by_stream]
    ahead = _IMPOSSIBLE_COVERS
    if len(order) <= ahead:
        return bad
    now, later = order[:-ahead], order[ahead:]
    same = (streams[:-ahead] == streams[ahead:]) & (trace.pid[now] == trace.pid[later])
    overlap = trace.ts[now] + trace.dur[now] - trace.ts[later]
    bad[now[same & (overlap > _IMPOSSIBLE_OVERLAP_NS)]] = True
    return bad
