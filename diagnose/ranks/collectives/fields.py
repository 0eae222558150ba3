"""The fields of each collective kernel: its own, else those of the host's record that launched it.

RCCL and some versions of Kineto leave the fields on the host's `record_param_comms` alone. Before torch 2.3 there are
none, and only the annotation around the launch shows which collective a kernel belongs to. A batch of sends and
receives is recorded call by call and launched as one kernel after the last.
"""

import msgspec
import numpy as np

from diagnose.arrays import Ints, among
from diagnose.ranks.collectives.kinds import SEND_RECEIVE
from diagnose.timeline import Timeline
from diagnose.timeline.kernel_names import collective_kind
from diagnose.trace import Trace
from diagnose.trace.vocabulary import ANNOTATIONS, GPU_CATEGORIES

ABSENT = -1
_ANNOTATION = r"(nccl|rccl|xccl|hccl|cncl):"


class Fields(msgspec.Struct, frozen=True):
    """The fields of some GPU activities, columns of equal length; ABSENT if unknown.

    Attributes:
        field: index of the trace's `collectives`.
        annotation: row of the annotation around the launch.
        messages: shape (messages, 3): index of the activity, and the ranks of its sender and receiver in the job.
    """

    field: Ints
    annotation: Ints
    messages: Ints


def fields_of(timeline: Timeline, activity: Ints) -> Fields:
    """The fields of the GPU activities at the given positions."""
    trace, gpu = timeline.trace, timeline.gpu
    launch = gpu.launcher[activity]
    records = _records(trace)
    own = _own(trace, gpu.row[activity])
    recorded = _taken(records, _around(trace, trace.collectives.row[records], launch))
    field = np.where(own >= 0, own, recorded)
    batch, kernel = _batches(trace, records, launch, field)
    field[kernel] = batch
    rows = timeline.rows_matching(_ANNOTATION, *ANNOTATIONS)
    annotation = _taken(rows, _around(trace, rows, launch))
    by_itself = field >= 0
    by_itself[kernel] = False
    alone = np.flatnonzero(by_itself)
    messages = _messages(timeline, np.append(alone, kernel), np.append(field[alone], batch))
    return Fields(field, annotation, messages)


def _own(trace: Trace, rows: Ints) -> Ints:
    """The index of the fields that each event carries itself."""
    table = trace.collectives.row
    if not len(table):
        return np.full(len(rows), ABSENT, np.int64)
    order = np.argsort(table, kind="stable")
    at = np.minimum(np.searchsorted(table[order], rows), len(table) - 1)
    return np.where(table[order][at] == rows, order[at], ABSENT)


def _records(trace: Trace) -> Ints:
    """Indexes of the fields that the host recorded."""
    return np.flatnonzero(~trace.rows_of(*GPU_CATEGORIES)[trace.collectives.row])


def _around(trace: Trace, ranges: Ints, launch: Ints) -> Ints:
    """The index of the range around each launch on its own thread, ABSENT if none; ranges do not nest."""
    at = _last_before(trace, ranges, launch)
    if not len(ranges):
        return at
    row, called = ranges[at], np.maximum(launch, 0)
    inside = (trace.tid[row] == trace.tid[called]) & (trace.ends(called) <= trace.ends(row))
    return np.where((at >= 0) & (launch >= 0) & inside, at, ABSENT)


def _last_before(trace: Trace, ranges: Ints, calls: Ints) -> Ints:
    """The index of the range that began last before each call, in order of thread and time.

    Both are sorted as one list, in which the latest range before a place is a running maximum of places of ranges.
    """
    rows = np.concatenate((ranges, np.maximum(calls, 0)))
    is_call = np.arange(len(rows)) >= len(ranges)
    order = np.lexsort((is_call, trace.ts[rows], trace.tid[rows]))
    latest = np.maximum.accumulate(np.where(is_call[order], ABSENT, np.arange(len(rows))))
    latest_range = np.empty(len(rows), np.int64)
    latest_range[order] = np.where(latest >= 0, order[latest], ABSENT)
    return latest_range[len(ranges) :]


def _batches(trace: Trace, records: Ints, launch: Ints, field: Ints) -> tuple[Ints, Ints]:
    """Sends and receives that launch nothing themselves: indexes of their fields, and the kernel that follows each."""
    names = trace.collectives.name
    sends = np.array([i for i in records.tolist() if collective_kind(names[i]) == SEND_RECEIVE], np.int64)
    sends = sends[~among(sends, field)]
    known = np.flatnonzero(launch >= 0)
    if not len(sends) or not len(known):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    follows = known[_next_after(trace, trace.collectives.row[sends], launch[known])]
    thread = trace.tid[trace.collectives.row[sends]]
    sound = (trace.tid[launch[follows]] == thread) & (field[follows] == ABSENT)
    return sends[sound], follows[sound]


def _next_after(trace: Trace, rows: Ints, calls: Ints) -> Ints:
    """The index of the first call after each event, in order of thread and time; the last call if there is none.

    As in `_last_before`, from the end: the nearest call after a place is a running minimum of places of calls.
    """
    both = np.concatenate((rows, calls))
    is_call = np.arange(len(both)) >= len(rows)
    order = np.lexsort((is_call, trace.ts[both], trace.tid[both]))
    last = int(np.flatnonzero(is_call[order])[-1])
    nearest = np.minimum.accumulate(np.where(is_call[order], np.arange(len(both)), last)[::-1])[::-1]
    next_call = np.empty(len(both), np.int64)
    next_call[order] = order[nearest] - len(rows)
    return next_call[: len(rows)]


def _messages(timeline: Timeline, at: Ints, field: Ints) -> Ints:
    table, rank = timeline.trace.collectives, timeline.rank
    sender, receiver = table.sender[field], table.receiver[field]
    ends = np.stack((at, np.where(sender >= 0, sender, rank), np.where(receiver >= 0, receiver, rank)), axis=1)
    return ends[(sender >= 0) | (receiver >= 0)].astype(np.int64)


def _taken(values: Ints, at: Ints) -> Ints:
    return np.append(values, ABSENT)[at]  # -1 takes the last
