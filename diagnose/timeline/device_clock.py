"""Move the times of a device whose clock is behind the host's to the host's clock, by the least shift that is needed.

No activity begins before the call that launches it. If some seem to, the device's clock is behind the host's by at
least as much. A drift shows in activities that begin on an idle device: these do not queue, so the time from their
launch to their begin changes with the clocks alone.
"""

from dataclasses import replace

import numpy as np

from diagnose.arrays import Ints, Mask
from diagnose.timeline.activities import Activities
from diagnose.trace import Trace
from diagnose.trace.vocabulary import GPU_CATEGORIES

_MAY_BE_EARLY = 0.01  # of the linked activities: single stamps and links are wrong now and then
_FEW = 2  # that may be early of how few ever
_IN_ORDER = 0.95  # of the linked activities of a stream, which runs them as they were launched
_IDLE_NS = 5_000
_ENOUGH = 20  # activities that an idle device begins, of the first and of the last third of these
_NEARLY_AT_ONCE = 0.9  # of these begin later after their launch than the one that shows the drift
_ROUNDS = 4  # each brings what is left of the drift within a third down to a fraction


def on_hosts_clock(trace: Trace, gpu: Activities) -> Trace:
    """The trace with its device's times moved so that at most one linked activity in a hundred begins before its
    launch.

    The same trace if no shift is needed, or if the links are unreliable: streams would not run in launch order.
    """
    linked = np.flatnonzero(gpu.launch >= 0)
    early = gpu.launch_start - gpu.start
    if _are_few(early[linked] > 0) or not _runs_in_order(gpu, linked):
        return trace
    linked = _in_order(gpu, linked)
    if _are_few(early[linked] > 0):
        return trace
    drift, first = _drift(gpu, early), gpu.start[0]
    behind = np.sort(early[linked] - drift * (gpu.start[linked] - first))[-1 - _allowed(len(linked))]
    rows = np.flatnonzero(trace.rows_of(*GPU_CATEGORIES, "gpu_user_annotation"))
    later = np.rint(behind + drift * (trace.ts[rows] - first)).astype(np.int64)
    ts = trace.ts.copy()
    ts[rows] += np.maximum(later, 0)
    return replace(trace, ts=ts)


def _allowed(activities: int) -> int:
    return max(int(_MAY_BE_EARLY * activities), _FEW)


def _are_few(early: Mask) -> bool:
    return int(np.count_nonzero(early)) <= _allowed(len(early))


def _in_order(gpu: Activities, linked: Ints) -> Ints:
    """The linked activities launched before all later ones on their stream; others may have a wrong link."""
    by_stream = linked[np.argsort(gpu.stream[linked], kind="stable")]
    queues = np.split(by_stream, np.flatnonzero(np.diff(gpu.stream[by_stream])) + 1)
    before_all = [gpu.launch_start[q] <= np.minimum.accumulate(gpu.launch_start[q][::-1])[::-1] for q in queues]
    return np.sort(by_stream[np.concatenate(before_all)])


def _runs_in_order(gpu: Activities, linked: Ints) -> bool:
    linked = linked[np.argsort(gpu.stream[linked], kind="stable")]
    later = np.diff(gpu.launch_start[linked]) >= 0
    same = np.diff(gpu.stream[linked]) == 0
    return not same.any() or bool(later[same].mean() >= _IN_ORDER)


def _drift(gpu: Activities, early: Ints) -> float:
    """Nanoseconds by which the device's clock falls behind per nanosecond; 0 if too few activities show it."""
    begun = np.flatnonzero(_on_idle_device(gpu) & (gpu.launch >= 0))
    first, _, last = np.array_split(begun, 3)
    drift, time = 0.0, gpu.start - gpu.start[0]
    if len(last) < _ENOUGH:
        return drift
    apart = float(np.median(time[last]) - np.median(time[first]))
    for _ in range(_ROUNDS):
        most = [np.quantile(early[third] - drift * time[third], _NEARLY_AT_ONCE) for third in (first, last)]
        drift += float(most[1] - most[0]) / apart
    return drift


def _on_idle_device(gpu: Activities) -> Mask:
    """Mask of the activities before which the device did nothing for a while."""
    until = np.maximum.accumulate(gpu.end)
    return np.append(False, gpu.start[1:] - until[:-1] > _IDLE_NS)
