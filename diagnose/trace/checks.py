"""Events that cannot have happened as recorded: zero or far-off timestamps and impossible durations."""

import numpy as np
from numpy.typing import NDArray

from diagnose.trace.columns import Trace
from diagnose.vocabulary import GPU_CATEGORIES

_FAR_NS = 60_000_000_000
_IMPOSSIBLE_OVERLAP_NS = 100_000_000
_IMPOSSIBLE_COVERS = 2


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
    return trace.select(~drop) if drop.any() else trace


def _far_from_host(trace: Trace, gpu: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """GPU events stamped over a minute away from everything the host did; CUPTI writes zeros for lost stamps."""
    host = ~gpu & (trace.pid >= 0)
    if not host.any() or not gpu.any():
        return np.zeros(len(trace), bool)
    first, last = int(trace.ts[host].min()), int(trace.ends(host).max())
    zero = (trace.ts == 0) & (trace.dur == 0) & (first > 1_000_000)
    return gpu & (zero | (trace.ts < first - _FAR_NS) | (trace.ts > last + _FAR_NS))


def _covers_successors(trace: Trace, gpu: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """GPU events that run long past the start of several later events of their own stream, which is in order."""
    bad = np.zeros(len(trace), bool)
    rows = np.flatnonzero(gpu)
    if not len(rows):
        return bad
    order = rows[np.lexsort((trace.ts[rows], trace.stream[rows], trace.pid[rows]))]
    ahead = _IMPOSSIBLE_COVERS
    if len(order) <= ahead:
        return bad
    now, later = order[:-ahead], order[ahead:]
    same = (trace.stream[now] == trace.stream[later]) & (trace.pid[now] == trace.pid[later])
    overlap = trace.ts[now] + trace.dur[now] - trace.ts[later]
    bad[now[same & (overlap > _IMPOSSIBLE_OVERLAP_NS)]] = True
    return bad
