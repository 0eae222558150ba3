"""The target that a host call waits for, and its host time apart from waiting.

Synchronisations, copies from and to pageable memory, and launches on a full queue wait. The replay computes how long;
the time apart from waiting is a median, never the call's own.
"""

import re
from dataclasses import dataclass

import numpy as np

from diagnose.arrays import Floats, Ints, Mask, first_of, rows_in
from diagnose.predict.replay.device import ENOUGH, LONG_AGO, NONE, Starts, busiest, medians
from diagnose.predict.replay.host import HostCalls
from diagnose.timeline import Activities, Timeline, grouped

ALL_STREAMS, ONE_STREAM = -2, -3  # waits for all launched so far: everywhere, or on stream ONE_STREAM - wait
QUEUE_LAUNCHES = 1021  # of the 1,024 entries of a CUDA channel; the same on V100 and H100
_DEEP_LAUNCHES = 100
_NEARLY_FULL = 0.9
_BLOCKED_NS = 20_000
_SLOW = 3  # times what a call takes while the queue is far from full
_DEFAULT_LAUNCH_NS = 5_000.0
_RETURN_NS = 5_000  # by which the clocks of host and device may disagree about the end of a wait
_WAITED_NS = 50_000

_WHOLE_DEVICE = re.compile(r".*(DeviceSynchronize|CtxSynchronize|Free)$")
_FREES = re.compile(r".*Free$")


@dataclass(frozen=True)
class CallWaits:
    """For each call: an activity, ALL_STREAMS, ONE_STREAM - stream, or NONE; and its host time apart from waiting."""

    target: Ints
    own_ns: Floats


@dataclass(frozen=True)
class Queue:
    """The number of launches that a stream holds before the next one blocks.

    `most_ns` is an upper bound on the host time of each call apart from waiting for room: infinite if there was room.
    """

    launches: int
    most_ns: Floats


def queue_of(timeline: Timeline, launched: Ints, stream: Ints) -> Queue:
    """The queues of the streams; `launched` is the first activity that each call launched, or NONE."""
    queue, full, usual = _full_queue(timeline, stream)
    most_ns = np.full(len(launched), np.inf)
    rows = np.flatnonzero(launched >= 0)
    rows = rows[full[launched[rows]]]
    most_ns[rows] = usual[launched[rows]]
    return Queue(queue, most_ns)


def waits_of(
    timeline: Timeline, calls: HostCalls, starts: Starts, launched: Ints, stream: Ints, most_ns: Floats
) -> CallWaits:
    """Return the target that each of `calls` waits for.

    Args:
        timeline: one rank with GPU activities.
        calls: the calls of the replayed steps.
        starts: the order of the activities on their streams.
        launched: the first activity that each call launched, or NONE.
        stream: the number of each activity's stream.
        most_ns: upper bound on each call's time apart from waiting.
    """
    target, own_ns = np.full(len(calls), NONE, np.int64), (calls.end - calls.start).astype(float)
    whole, frees = _named(timeline, calls, _WHOLE_DEVICE), _named(timeline, calls, _FREES)
    rows = np.flatnonzero(calls.synchronises)
    target[rows], ended = _synchronised(timeline.gpu, calls, starts, stream, rows)
    target[rows[whole[rows]]] = ALL_STREAMS
    beside = _beside(calls, rows, ended)
    own_ns[rows] = np.where(frees[rows], beside, _typical(beside[~frees[rows]]))
    rows = _blocking_copies(timeline, calls, launched)
    target[rows] = launched[rows]
    own_ns[rows] = _typical(_beside(calls, rows, timeline.gpu.end[launched[rows]]))
    return CallWaits(target, np.minimum(own_ns, most_ns))


def _named(timeline: Timeline, calls: HostCalls, pattern: re.Pattern[str]) -> Mask:
    return (calls.row >= 0) & timeline.trace.named(pattern.match)[calls.row]


def _beside(calls: HostCalls, rows: Ints, ended: Ints) -> Floats:
    """The part of the calls after what they waited for had ended."""
    return (calls.end[rows] - np.clip(ended, calls.start[rows], calls.end[rows])).astype(float)


def _typical(ns: Floats) -> float:
    return float(np.median(ns)) if len(ns) else 0.0


def _synchronised(gpu: Activities, calls: HostCalls, starts: Starts, stream: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """The target that each synchronisation waits for, and its end.

    The trace does not show which stream a call waits for. It is taken to be the one whose work ended just before the
    call did or, if nothing was left to wait for, the one launched on last. If there are very many streams, only the
    busiest are examined.
    """
    begin, until = calls.start[rows], calls.end[rows] + _RETURN_NS
    streams = busiest(grouped(stream))
    shape = (max(len(streams), 1), len(rows))
    target, ended, due = np.full(shape, NONE), np.full(shape, LONG_AGO), np.full(shape, LONG_AGO)
    for number, held in enumerate(streams):
        last = np.searchsorted(starts.due[held], begin, side="left") - 1
        at = np.minimum(np.searchsorted(gpu.end[held], until, side="right") - 1, last)
        some = at >= 0
        awaited = np.where(at == last, ONE_STREAM - stream[held[0]], held[np.maximum(at, 0)])
        target[number] = np.where(some, awaited, NONE)
        ended[number] = np.where(some, gpu.end[held[np.maximum(at, 0)]], LONG_AGO)
        due[number] = np.where(some, starts.due[held[np.maximum(last, 0)]], LONG_AGO)
    every, latest = np.arange(len(rows)), ended.argmax(axis=0)
    end = ended[latest, every]
    chosen = np.where((end > begin) & (end >= until - _RETURN_NS - _WAITED_NS), latest, due.argmax(axis=0))
    return target[chosen, every], end


def _blocking_copies(timeline: Timeline, calls: HostCalls, launched: Ints) -> Ints:
    """Calls that return when their copy from or to pageable memory has ended; small ones are staged and return."""
    gpu, trace = timeline.gpu, timeline.trace
    crosses = np.array([k.family == "memcpy" and k.sub in ("HtoD", "DtoH") for k in gpu.kinds], bool)
    pinned = np.array(["Pinned" in name for name in trace.names], bool)
    rows = np.flatnonzero(launched >= 0)
    activity = launched[rows]
    blocks = crosses[gpu.kind[activity]] & ~pinned[trace.name[gpu.row[activity]]]
    return rows[blocks & (gpu.end[activity] <= calls.end[rows] + _RETURN_NS)]


def _full_queue(timeline: Timeline, stream: Ints) -> tuple[int, Mask, Floats]:
    """The launches that a stream holds, the activities launched on a full queue, and the calls' time apart from
    waiting.

    A full queue shows in many calls that last long and return when the same number of launches is left to start.
    """
    gpu = timeline.gpu
    first, depth = _depths(gpu, stream)
    took = np.where(first, gpu.launch_end - gpu.launch_start, 0)
    shallow = first & (depth < max(_DEEP_LAUNCHES, int(depth.max(initial=0)) // 2))
    slow = _SLOW * float(np.median(took[shallow])) if shallow.any() else _BLOCKED_NS
    blocked = first & ~shallow & (took > slow)
    if blocked.sum() < ENOUGH:
        return QUEUE_LAUNCHES, np.zeros(len(gpu), bool), took.astype(np.float64)
    queue = int(np.median(depth[blocked]))
    full = first & (blocked | (depth >= _NEARLY_FULL * queue))
    name = np.where(gpu.launch >= 0, timeline.trace.name[gpu.launch], NONE)
    keys = [name, np.zeros(len(gpu), np.int8)]
    quick = medians(took, first & (took < _BLOCKED_NS), keys, _DEFAULT_LAUNCH_NS)
    usual = medians(took, first & ~full, [name], np.nan)
    return queue, full, np.minimum(took, np.where(np.isnan(usual), quick, usual))


def _depths(gpu: Activities, stream: Ints) -> tuple[Mask, Ints]:
    """The first activity of each launch, and how many launches back the last one is that had started by its end."""
    firsts = _first_of_launches(gpu)
    first, depth = np.zeros(len(gpu), bool), rows_in(np.zeros(len(gpu), np.int64), len(gpu))
    first[firsts] = True
    for positions in grouped(stream[firsts]):
        of_stream = firsts[positions]
        started = np.searchsorted(gpu.start[of_stream], gpu.launch_end[of_stream], side="right")
        depth[of_stream] = np.arange(1, len(of_stream) + 1) - started
    return first, depth


def _first_of_launches(gpu: Activities) -> Ints:
    """The first activity of each launch, ascending."""
    linked = rows_in(np.flatnonzero(gpu.launch >= 0), len(gpu))
    launch = gpu.launch[linked]
    return np.asarray(linked[first_of(launch, launch) == np.arange(len(launch))])
