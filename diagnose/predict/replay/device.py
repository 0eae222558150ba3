"""What decides when a GPU activity starts: its stream and the gap, its launch and the latency, another stream.

Gaps and latencies are medians over the trace, by stream and pair of kinds where there are enough of them. No activity
keeps the delay it was measured with: a replay that did would reproduce any step and prove nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from diagnose.arrays import Floats, Ints, Mask, by_value, numbered, shortened
from diagnose.timeline import Activities, grouped

NONE = -1
LONG_AGO = int(np.iinfo(np.int64).min) // 2
LATENCY_AT_MOST_NS = 100_000  # longer after the call, or between kernels, is a wait for something else
GAP_AT_MOST_NS = 20_000
LATE_NS = 5_000
EDGE_NS = 60_000
COLLECTIVE_EDGE_NS = 500_000
ENOUGH = 5
MOST_STREAMS = 64  # that what waits is compared with
_DEFAULT_GAP_NS, _DEFAULT_LATENCY_NS = 1_000.0, 5_000.0


@dataclass(frozen=True)
class Starts:
    """For each GPU activity of the timeline: its predecessors and the typical time after each of them.

    Attributes:
        previous: the activity before it on its stream, or NONE.
        due: when the last of it and all before it on its stream was launched, in host time.
        gap_ns: from the end of `previous`.
        latency_ns: from the start of its launch call.
        edge: the activity of another stream that it waits for, or NONE.
        edge_is_whole: whether `edge` is the last that its stream held at the launch.
        edge_ns: from the end of `edge`.
    """

    previous: Ints
    due: Ints
    gap_ns: Floats
    latency_ns: Floats
    edge: Ints
    edge_is_whole: Mask
    edge_ns: float


def starts_of(gpu: Activities, call_name: Ints, wait_calls: Ints) -> Starts:
    """The rules by which the activities start.

    Args:
        gpu: the activities.
        call_name: the name id of each one's launch call.
        wait_calls: when the host made a stream wait for another (cudaStreamWaitEvent), sorted.
    """
    previous, due = _stream_order(gpu)
    free = np.where(previous >= 0, gpu.end[previous], LONG_AGO)
    launched = np.maximum(gpu.launch_start, LONG_AGO)
    told = _told_to_wait(gpu, wait_calls)
    latency = _latencies(gpu, call_name, ~told)
    gap = _gaps(gpu, previous, free, ~told & (launched + latency <= free))
    late = (gpu.start - np.maximum(free + gap, launched + latency) > LATE_NS) & (launched > LONG_AGO)
    edge, whole = _edges(gpu, due, late, told)
    seen = np.flatnonzero((edge >= 0) & late)
    edge_ns = float(np.median(gpu.start[seen] - gpu.end[edge[seen]])) if len(seen) else 0.0
    return Starts(previous, due, gap, latency, edge, whole, edge_ns)


def medians(values: Floats, use: Mask, keys: Sequence[Ints], otherwise: float) -> Floats:
    """For each row the median of `values` among the rows in `use` that share its first key with ENOUGH of them.

    The last key takes whatever there is; a row for which there is nothing gets `otherwise`.
    """
    middle, used = np.full(len(values), np.nan), np.flatnonzero(use)
    ascending = used[by_value(values[used])]
    for at_least, key in zip([ENOUGH] * (len(keys) - 1) + [1], keys, strict=True):
        missing = np.isnan(middle)
        if missing.any():
            middle[missing] = _group_medians(values, ascending, key, at_least)[missing]
    return np.where(np.isnan(middle), otherwise, middle)


def busiest(groups: Sequence[Ints]) -> list[Ints]:
    """The groups, of more than MOST_STREAMS those with the most activities, in their order."""
    if len(groups) <= MOST_STREAMS:
        return list(groups)
    kept = np.sort(np.argsort([-len(group) for group in groups], kind="stable")[:MOST_STREAMS])
    return [groups[at] for at in kept]


def _stream_order(gpu: Activities) -> tuple[Ints, Ints]:
    previous, due = np.full(len(gpu), NONE, np.int64), gpu.launch_start.copy()
    for queue in grouped(gpu.stream):
        previous[queue[1:]] = queue[:-1]
        due[queue] = np.maximum.accumulate(due[queue])
    return previous, due


def _latencies(gpu: Activities, call_name: Ints, use: Mask) -> Floats:
    """Launch to start where the device had nothing else to do, by name of the call."""
    busy_until = np.concatenate(([LONG_AGO], np.maximum.accumulate(gpu.end)[:-1])) if len(gpu) else gpu.end
    idle = use & (gpu.launch >= 0) & (busy_until <= gpu.launch_start) & (gpu.start >= gpu.launch_start)
    idle &= gpu.start <= gpu.launch_end + LATENCY_AT_MOST_NS
    since = (gpu.start - np.maximum(gpu.launch_start, LONG_AGO)).astype(float)
    return medians(since, idle, [call_name, np.zeros_like(call_name)], _DEFAULT_LATENCY_NS)


def _gaps(gpu: Activities, previous: Ints, free: Ints, in_time: Mask) -> Floats:
    """End of the previous activity to the start of one that was launched in time."""
    stream = gpu.stream.astype(np.int64)
    pair = gpu.kind[previous].astype(np.int64) * len(gpu.kinds) + gpu.kind
    keys = [stream * len(gpu.kinds) ** 2 + pair, pair, stream, np.zeros_like(pair)]
    use = in_time & (previous >= 0) & (gpu.start <= free + GAP_AT_MOST_NS)
    return medians((gpu.start - free).astype(float), use, keys, _DEFAULT_GAP_NS)


def _group_medians(values: Floats, ascending: Ints, key: Ints, at_least: int) -> Floats:
    """The median of each row's group by the rows `ascending` in value; NaN in groups with too few of these."""
    several, number = numbered(key)
    group = shortened(number, len(several))
    rows = ascending[np.argsort(group[ascending], kind="stable")]
    size = np.bincount(group[rows], minlength=len(several))
    first = np.cumsum(size) - size
    enough = size >= at_least
    middle = np.full(len(size), np.nan)
    lower, upper = (first + (size - 1) // 2)[enough], (first + size // 2)[enough]
    middle[enough] = (values[rows[lower]] + values[rows[upper]]) / 2
    return middle[group]


def _edges(gpu: Activities, due: Ints, late: Mask, told: Mask) -> tuple[Ints, Mask]:
    """The activity of another stream that each one waits for, and whether that is all its stream held at the launch.

    It is the last one launched before, if it ended just before a late start (of several streams, the one that ended
    last). A collective may start later still: it also needs free multiprocessors. Where the host made a stream wait,
    it may have ended any time before (of several streams, the one launched on last). Of very many streams only the
    busiest are looked at, since each activity is compared with each stream.
    """
    edge, whole, best = np.full(len(gpu), NONE, np.int64), np.zeros(len(gpu), bool), np.full(len(gpu), LONG_AGO)
    reach = np.where(gpu.is_communication, COLLECTIVE_EDGE_NS, EDGE_NS)
    rows = np.flatnonzero(late | told)
    for queue in busiest(grouped(gpu.stream)):
        waiting = rows[gpu.stream[rows] != gpu.stream[queue[0]]]
        launched = np.searchsorted(due[queue], gpu.launch_start[waiting], side="left") - 1
        at = np.minimum(launched, np.searchsorted(gpu.end[queue], gpu.start[waiting], side="right") - 1)
        source = queue[np.maximum(at, 0)]
        near = late[waiting] & (gpu.end[source] >= gpu.start[waiting] - reach[waiting])
        asked = told[waiting] & ~late[waiting] & (at == launched)
        rank = np.where(asked, due[source], gpu.end[source])
        holds = (at >= 0) & (near | asked) & (rank > best[waiting])
        edged = waiting[holds]
        edge[edged], whole[edged], best[edged] = source[holds], (at == launched)[holds], rank[holds]
    return edge, whole


def _told_to_wait(gpu: Activities, wait_calls: Ints) -> Mask:
    """The activities launched right after a call that makes a stream wait for another, no other launch in between.

    And collectives: PyTorch's process groups have them wait for the stream that was current at the call.
    """
    linked = np.flatnonzero(gpu.launch >= 0)
    order = linked[np.argsort(gpu.launch_start[linked], kind="stable")]
    calls = np.searchsorted(wait_calls, gpu.launch_start[order])
    told = gpu.is_communication.copy()
    told[order] |= np.diff(calls, prepend=calls[:1]) > 0
    return told
