"""The operator that launched each kernel, and the nesting of operators."""

from collections.abc import Iterator

import numpy as np

from diagnose.arrays import Array, Ints, among, first_of, numbered, ordered, rows_in
from diagnose.intervals import holds, intervals
from diagnose.roofline.nests import NONE, enclosing, nested_order
from diagnose.timeline import Timeline
from diagnose.trace import Trace
from diagnose.trace.vocabulary import OPS

_ROUNDS = 32  # of candidates passed on; those left then are in deep nests


def operators(timeline: Timeline) -> Ints:
    """For each GPU activity, the row of the innermost recorded operator that launched it, -1 if not known.

    The external id decides if that operator was running at the launch, or if only ids identify the launch. Traces of
    old versions have other numbers there; their operator is the innermost one that was running on the launching thread.
    """
    return timeline.once(_narrow_operators)


def _narrow_operators(timeline: Timeline) -> Ints:
    return rows_in(_operators(timeline), len(timeline.trace))


def _operators(timeline: Timeline) -> Ints:
    trace, gpu = timeline.trace, timeline.gpu
    rows = np.flatnonzero(trace.rows_of(*OPS))
    if not len(rows) or not len(gpu):
        return np.full(len(gpu), NONE, np.int64)
    operator = _by_id(timeline, rows[trace.external_id[rows] > 0])
    left = np.flatnonzero((operator == NONE) & (gpu.launch >= 0))
    if len(left):
        launch = gpu.launch[left]
        operator[left] = _running(trace, rows, trace.pid[launch], trace.tid[launch], trace.ts[launch])
    return operator


def _by_id(timeline: Timeline, rows: Ints) -> Ints:
    trace, gpu = timeline.trace, timeline.gpu
    if not len(rows):
        return np.full(len(gpu), NONE, np.int64)
    external = trace.external_id[gpu.row]
    wanted = np.where(external > 0, external, trace.external_id[gpu.launch])
    at = first_of(trace.external_id[rows], wanted)
    operator, launched = rows[at], trace.ts[gpu.launch]
    running = (trace.ts[operator] <= launched) & (launched <= trace.ends(operator))
    return np.where(gpu.launch >= 0, np.where((at >= 0) & running, operator, NONE), gpu.launcher)


def directly_inside(trace: Trace, outer: Ints, rows: Ints) -> Iterator[tuple[int, Ints]]:
    """Each of `outer`, of one thread, and the `rows` of that thread, `outer` among them, that are directly inside it.

    These end after everything inside them that began before.
    """
    rows = rows[ordered(trace.ts[rows], -trace.dur[rows])]
    begin, end = trace.ts[rows], trace.ends(rows)
    for at in np.flatnonzero(among(rows, outer)).tolist():
        last = np.searchsorted(begin, end[at], side="right")
        ends = end[at + 1 : last]
        reached = np.maximum.accumulate(np.append(np.iinfo(np.int64).min, ends))[:-1]
        yield int(rows[at]), rows[at + 1 : last][(ends > reached) & (ends <= end[at])]


def around(trace: Trace, outer: Ints, inner: Ints) -> Ints:
    """For each row of `inner`, the innermost row of `outer` running on its thread when it began; -1 if none."""
    found = np.full(len(inner), NONE, np.int64)
    held = np.flatnonzero(holds(intervals(trace.ts[outer], trace.ends(outer)), trace.ts[inner]))
    if len(held):
        rows = inner[held]
        found[held] = _running(trace, outer, trace.pid[rows], trace.tid[rows], trace.ts[rows])
    return found


def _running(trace: Trace, rows: Ints, pid: Ints, tid: Ints, time: Ints) -> Ints:
    """For each instant of a thread, the innermost of `rows` running there, unless it ends at that instant."""
    if not len(rows):
        return np.full(len(time), NONE, np.int64)
    rows = rows[nested_order(trace, rows)]
    up, end = enclosing(trace, rows), trace.ends(rows)
    at = _last_begun(trace, rows, pid, tid, time)
    for _ in range(_ROUNDS):
        over = (at >= 0) & (end[at] <= time)
        if not over.any():
            break
        at = np.where(over, up[at], at)
    else:
        at = _still_running(end, up, at, time)
    return np.where(at >= 0, rows[at], NONE)


def _last_begun(trace: Trace, rows: Ints, pid: Ints, tid: Ints, time: Ints) -> Ints:
    """For each instant of a thread, the position of the last of `rows`, in nested order, that had begun there."""
    last, begin = np.full(len(time), NONE, np.int64), trace.ts[rows]
    threads = dict(_threads(trace.pid[rows], trace.tid[rows]))
    order = np.lexsort((tid, pid))
    for thread, turn in _threads(pid[order], tid[order]):
        if (events := threads.get(thread)) is not None:
            at = np.searchsorted(begin[events], time[order[turn]], side="right") - 1
            last[order[turn]] = np.where(at >= 0, events.start + at, NONE)
    return last


def _threads(pid: Ints, tid: Ints) -> Iterator[tuple[tuple[int, int], slice]]:
    """The threads of columns that are sorted by thread, each with its slice."""
    if not len(pid):
        return
    first = np.flatnonzero((np.diff(pid, prepend=pid[:1] - 1) != 0) | (np.diff(tid, prepend=tid[:1] - 1) != 0))
    named = zip(pid[first].tolist(), tid[first].tolist(), strict=True)
    for thread, begin, end in zip(named, first.tolist(), [*first.tolist(), len(pid)][1:], strict=True):
        yield thread, slice(begin, end)


def _still_running(end: Ints, up: Ints, at: Ints, time: Ints) -> Ints:
    """The innermost event around `at`, or itself, that ends behind `time`; each step halves how far it can be."""
    for higher in reversed(_ladder(up)):
        at = np.where((at >= 0) & (end[at] <= time) & (end[higher[at]] <= time), higher[at], at)
    return np.where((at >= 0) & (end[at] <= time), up[at], at)


def _ladder(up: Ints) -> list[Ints]:
    """The enclosing events 1, 2, 4, ... levels up, or the outermost if there are fewer, until nothing changes."""
    top = np.where(up >= 0, up, np.arange(len(up)))
    steps = [top]
    while not np.array_equal(further := top[top], top):
        steps.append(top := further)
    return steps


def distinct(*columns: Array) -> tuple[Ints, Ints]:
    """The distinct rows of parallel columns of small numbers, at least -1, and for each row the number of its own.

    The first has one line for each column. Columns are packed into one number: `np.unique` sorts tuples far slower.
    """
    widths = [int(column.max(initial=0)) + 2 for column in columns]
    packed = np.zeros(len(columns[0]), np.int64)
    for column, width in zip(columns, widths, strict=True):
        packed = packed * width + column + 1
    codes, which = numbered(packed)
    lines = []
    for width in reversed(widths):
        lines.append(codes % width - 1)
        codes = codes // width
    return np.stack(lines[::-1]), which
