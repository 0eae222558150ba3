"""Which operator launched a kernel, and which operators run inside which."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from diagnose.timeline import Timeline
from diagnose.trace import Trace
from diagnose.vocabulary import OPS

Rows = NDArray[np.int64]
NONE = -1


def operators(timeline: Timeline) -> Rows:
    """For each GPU activity, the row of the innermost recorded operator that launched it, -1 when it is not known.

    The external id says it where that operator was running at the launch. Traces of old versions carry other numbers
    there; their operator is the innermost one that was running on the launching thread.
    """
    trace, gpu = timeline.trace, timeline.gpu
    rows = np.flatnonzero(trace.rows_of(*OPS))
    if not len(rows) or not len(gpu):
        return np.full(len(gpu), NONE, np.int64)
    found = _by_id(timeline, rows[trace.external_id[rows] > 0])
    left = np.flatnonzero((found == NONE) & (gpu.launch >= 0))
    if len(left):
        launch = gpu.launch[left]
        found[left] = _running(trace, rows, trace.pid[launch], trace.tid[launch], trace.ts[launch])
    return found


def _by_id(timeline: Timeline, rows: Rows) -> Rows:
    trace, gpu = timeline.trace, timeline.gpu
    if not len(rows):
        return np.full(len(gpu), NONE, np.int64)
    rows = rows[np.argsort(trace.external_id[rows], kind="stable")]
    ids = trace.external_id[rows]
    wanted = np.where(gpu.launch >= 0, trace.external_id[gpu.launch], NONE)
    own = trace.external_id[gpu.row]
    wanted = np.where(own > 0, own, wanted)
    found = rows[np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)]
    start = trace.ts[found]
    launched = np.where(gpu.launch >= 0, trace.ts[gpu.launch], start)
    running = (start <= launched) & (launched <= start + trace.dur[found])
    return np.where((wanted > 0) & (trace.external_id[found] == wanted) & running, found, NONE)


def parents(trace: Trace, rows: Rows) -> Rows:
    """For each of `rows`, the position in `rows` of the innermost other one around it on its thread, -1 without one."""
    order = _nested_order(trace, rows)
    up = _enclosing(trace, rows[order])
    found = np.full(len(rows), NONE, np.int64)
    found[order] = np.where(up >= 0, order[up], NONE)
    return found


def around(trace: Trace, outer: Rows, inner: Rows) -> Rows:
    """For each row of `inner`, the innermost row of `outer` that was running when it began, on its thread; -1."""
    return _running(trace, outer, trace.pid[inner], trace.tid[inner], trace.ts[inner])


def _running(trace: Trace, rows: Rows, pid: Rows, tid: Rows, time: Rows) -> Rows:
    """For each instant of a thread, the innermost of `rows` that was running there; what ends then no longer runs."""
    found = np.full(len(time), NONE, np.int64)
    if not len(rows):
        return found
    rows = rows[_nested_order(trace, rows)]
    up = _enclosing(trace, rows)
    begin, end = trace.ts[rows], trace.ts[rows] + trace.dur[rows]
    for process, thread in set(zip(pid.tolist(), tid.tolist(), strict=True)):
        own = np.flatnonzero((trace.pid[rows] == process) & (trace.tid[rows] == thread))
        if not len(own):
            continue
        asked = np.flatnonzero((pid == process) & (tid == thread))
        at = np.searchsorted(begin[own], time[asked], side="right") - 1
        at = np.where(at >= 0, own[np.maximum(at, 0)], NONE)
        while (over := (at >= 0) & (end[at] <= time[asked])).any():
            at = np.where(over, up[at], at)
        found[asked] = np.where(at >= 0, rows[at], NONE)
    return found


def _nested_order(trace: Trace, rows: Rows) -> Rows:
    """By thread, then by start, then the longer first: an event comes after all that it is inside of."""
    return np.lexsort((-trace.dur[rows], trace.ts[rows], trace.tid[rows], trace.pid[rows]))


def _enclosing(trace: Trace, rows: Rows) -> Rows:
    """Positions of the innermost enclosing events, for rows in nested order.

    The candidate is the event before; one that ended earlier hands on its own candidate, so that chains of siblings
    halve in every round.
    """
    pid, tid, end = trace.pid[rows], trace.tid[rows], trace.ts[rows] + trace.dur[rows]
    up = np.arange(-1, len(rows) - 1)
    same = (pid[1:] == pid[:-1]) & (tid[1:] == tid[:-1])
    up[1:][~same] = NONE
    while (over := (up >= 0) & (end[up] < end)).any():
        up = np.where(over, up[up], up)
    return up


def distinct(*columns: NDArray[Any]) -> tuple[Rows, Rows]:
    """The distinct rows of parallel columns of small numbers, at least -1, and for each row the number of its own.

    The first has one line for each column. Columns are packed into one number: `np.unique` sorts tuples far slower.
    """
    widths = [int(column.max(initial=0)) + 2 for column in columns]
    packed = np.zeros(len(columns[0]), np.int64)
    for column, width in zip(columns, widths, strict=True):
        packed = packed * width + column + 1
    found, which = np.unique(packed, return_inverse=True)
    lines = []
    for width in reversed(widths):
        lines.append(found % width - 1)
        found = found // width
    return np.stack(lines[::-1]), which.ravel()
