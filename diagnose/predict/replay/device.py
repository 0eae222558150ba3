"""The start of GPU activities: after its stream and the gap, its launch and the latency, or another stream.

Gaps and latencies are medians over the trace, by stream and pair of kinds if there are enough of them. No activity
keeps its measured delay: a replay that kept it would reproduce any step and prove nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from diagnose.arrays import Array, Floats, Ints, Mask, combined, rows_in, shortly_numbered
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
_LARGEST = 1 << 63
_DEFAULT_GAP_NS, _DEFAULT_LATENCY_NS = 1_000.0, 5_000.0


@dataclass(frozen=True)
class Starts:
    """For each GPU activity of the timeline: its predecessors and the typical time after each of them.

    Attributes:
        previous: the activity before it on its stream, or NONE.
        due: host time of the last launch among it and all before it on its stream.
        gap_ns: typical time from the end of `previous`.
        latency_ns: typical time from the start of its launch call.
        edge: the activity of another stream that it waits for, or NONE.
        edge_is_whole: whether `edge` is the last that its stream held at the launch.
        edge_ns: typical time from the end of `edge`.
    """

    previous: Ints
    due: Ints
    gap_ns: Floats
    latency_ns: Floats
    edge: Ints
    edge_is_whole: Mask
    edge_ns: float


def starts_of(gpu: Activities, call_name: Array, wait_calls: Ints) -> Starts:
    """The rules by which the activities start.

    Args:
        gpu: the activities.
        call_name: the name id of each one's launch call.
        wait_calls: when the host made a stream wait for another (cudaStreamWaitEvent), sorted.
    """
    previous = _previous(gpu)
    told = _told_to_wait(gpu, wait_calls)
    latency = _latencies(gpu, call_name, ~told)
    free = np.where(previous >= 0, gpu.end[previous], LONG_AGO)
    launched_by = np.maximum(gpu.launch_start, LONG_AGO) + latency
    gap = _gaps(gpu, previous, free, ~told & (launched_by <= free))
    late = (gpu.start - np.maximum(free + gap, launched_by) > LATE_NS) & (gpu.launch_start > LONG_AGO)
    del free, launched_by
    due = _due(gpu)
    edge, whole = _edges(gpu, due, late, told)
    seen = np.flatnonzero((edge >= 0) & late)
    edge_ns = float(np.median(gpu.start[seen] - gpu.end[edge[seen]])) if len(seen) else 0.0
    return Starts(previous, due, gap, latency, edge, whole, edge_ns)


def medians(values: Ints, use: Mask, keys: Sequence[Array], otherwise: float) -> Floats:
    """For each row the median of `values` among the rows in `use` that share its first key with ENOUGH of them.

    The last key needs only one row; a row without any match gets `otherwise`.
    """
    middle, used = np.full(len(values), np.nan), values[use]
    for at_least, key in zip([ENOUGH] * (len(keys) - 1) + [1], keys, strict=True):
        missing = np.isnan(middle)
        if not missing.any():
            break
        several, group = shortly_numbered(key)
        middle[missing] = _group_medians(used, group[use], len(several), at_least)[group[missing]]
    middle[np.isnan(middle)] = otherwise
    return middle


def busiest(groups: Sequence[Ints]) -> list[Ints]:
    """The groups, of more than MOST_STREAMS those with the most activities, in their order."""
    if len(groups) <= MOST_STREAMS:
        return list(groups)
    kept = np.sort(np.argsort([-len(group) for group in groups], kind="stable")[:MOST_STREAMS])
    return [groups[at] for at in kept]


def _previous(gpu: Activities) -> Ints:
    """For each activity the one before it on its stream, or NONE."""
    previous = rows_in(np.full(len(gpu), NONE, np.int64), len(gpu))
    for queue in grouped(gpu.stream):
        previous[queue[1:]] = queue[:-1]
    return previous


def _due(gpu: Activities) -> Ints:
    """For each activity, the latest launch among it and all before it on its stream."""
    due = gpu.launch_start.copy()
    for queue in grouped(gpu.stream):
        due[queue] = np.maximum.accumulate(due[queue])
    return due


def _latencies(gpu: Activities, call_name: Array, use: Mask) -> Floats:
    """Typical time from launch to start when the device has nothing else to do, by name of the call."""
    busy_until = np.concatenate(([LONG_AGO], np.maximum.accumulate(gpu.end)[:-1])) if len(gpu) else gpu.end
    idle = use & (gpu.launch >= 0) & (busy_until <= gpu.launch_start) & (gpu.start >= gpu.launch_start)
    idle &= gpu.start <= gpu.launch_end + LATENCY_AT_MOST_NS
    since = gpu.start - np.maximum(gpu.launch_start, LONG_AGO)
    return medians(since, idle, [call_name, np.zeros(len(gpu), np.int8)], _DEFAULT_LATENCY_NS)


def _gaps(gpu: Activities, previous: Ints, free: Ints, in_time: Mask) -> Floats:
    """End of the previous activity to the start of one that was launched in time."""
    pair = combined(gpu.kind[previous], gpu.kind)
    keys = [combined(gpu.stream, pair), pair, gpu.stream, np.zeros(len(gpu), np.int8)]
    gap = gpu.start - free
    use = in_time & (previous >= 0) & (gap <= GAP_AT_MOST_NS)
    return medians(gap, use, keys, _DEFAULT_GAP_NS)


def _group_medians(values: Ints, group: Array, groups: int, at_least: int) -> Floats:
    """The median of the values of each group, shape (groups,); NaN for a group with too few of them."""
    size = np.bincount(group, minlength=groups)
    first, enough = np.cumsum(size) - size, size >= at_least
    middle, lower, upper = np.full(groups, np.nan), first + (size - 1) // 2, first + size // 2
    low, high = _in_groups(values, group, groups, np.stack((lower[enough], upper[enough])))
    middle[enough] = (low.astype(np.float64) + high) / 2
    return middle


def _in_groups(values: Ints, group: Array, groups: int, places: Ints) -> Ints:
    """The values at the places, when ordered by group and ascending within each.

    Sorts single numbers if 64 bits hold both group and value.
    """
    if not len(values):
        return np.zeros_like(places)
    least, span = int(values.min()), int(values.max()) - int(values.min()) + 1
    if span * groups >= _LARGEST:
        return values[np.lexsort((values, group))[places]]
    number = (values - least).astype(np.min_scalar_type(span * groups))
    number += group.astype(number.dtype) * number.dtype.type(span)
    number.sort()
    return number[places].astype(np.int64) % span + least


def _edges(gpu: Activities, due: Ints, late: Mask, told: Mask) -> tuple[Ints, Mask]:
    """The activity of another stream that each one waits for, and whether it was its stream's last at the launch.

    It is the last one launched before, if it ended just before a late start (of several streams, the one that ended
    last). A collective may start later still: it also needs free multiprocessors. If the host made a stream wait, it
    may have ended any time before (of several streams, the one launched on last). If there are very many streams, only
    the busiest are examined, since each activity is compared with each stream.
    """
    edge, whole = rows_in(np.full(len(gpu), NONE, np.int64), len(gpu)), np.zeros(len(gpu), bool)
    best = np.full(len(gpu), LONG_AGO)
    rows = np.flatnonzero(late | told)
    for queue in busiest(grouped(gpu.stream)):
        waiting = rows[gpu.stream[rows] != gpu.stream[queue[0]]]
        launched = np.searchsorted(due[queue], gpu.launch_start[waiting], side="left") - 1
        at = np.minimum(launched, np.searchsorted(gpu.end[queue], gpu.start[waiting], side="right") - 1)
        source = queue[np.maximum(at, 0)]
        reach = np.where(gpu.is_communication[waiting], COLLECTIVE_EDGE_NS, EDGE_NS)
        near = late[waiting] & (gpu.end[source] >= gpu.start[waiting] - reach)
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
