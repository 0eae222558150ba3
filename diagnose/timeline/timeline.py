"""One rank's trace as GPU activities linked to their launches, and the steps they belong to.

The other GPUs that the process uses, apart from the one whose time is accounted.
"""

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Array, Ints, Mask, first_of, numbered, rows_in
from diagnose.timeline.activities import Activities, activities_of
from diagnose.timeline.derived import Derived
from diagnose.timeline.external_ids import correlated
from diagnose.timeline.gpu_record import UNSEEN, GpuRecord, Seen, gpu_record_of
from diagnose.timeline.graph_captures import GraphCaptures, graph_captures
from diagnose.timeline.launches import Launches
from diagnose.timeline.steps import StepWindows, device_steps, host_only, host_steps, whole_steps
from diagnose.trace import Trace
from diagnose.trace.vocabulary import (
    ANNOTATIONS,
    BACKWARD,
    GPU_CATEGORIES,
    OPS,
    OPTIMIZER_STEP,
    RUNTIME,
    is_of_unknown_device,
)

LEAST_SHARE = 0.05  # of the busiest GPU's time: a GPU with less is hardly used, as by a mere context


def _none() -> Ints:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class OtherGpus:
    """The number of other GPUs that work for the process, when any does, and the calls that launch on them."""

    count: int = 0
    busy: iv.Intervals = field(default_factory=lambda: iv.EMPTY)
    launches: Ints = field(default_factory=_none)


def other_gpus_of(trace: Trace, gpu: Activities) -> OtherGpus:
    """Other GPUs than that of the activities."""
    rows = np.flatnonzero(trace.rows_of(*GPU_CATEGORIES))
    if len(rows) == len(gpu):
        return OtherGpus()
    devices, index = numbered(trace.pid[rows])
    ns = np.bincount(index, weights=trace.dur[rows])
    works = (ns >= LEAST_SHARE * ns.max()) & (devices != trace.pid[gpu.row[0]])
    rows = rows[works[index]]
    calls = np.flatnonzero(trace.rows_of(*RUNTIME) & (trace.correlation > 0))
    at = first_of(trace.correlation[calls], trace.correlation[rows])
    return OtherGpus(
        count=int(works.sum()),
        busy=iv.intervals(trace.ts[rows], trace.ends(rows)),
        launches=np.unique(calls[at[at >= 0]]),
    )


@dataclass(frozen=True)
class Timeline(Derived):
    """One rank: its trace, the activities of its busiest device, the threads that launched them, and its steps.

    `calls` are the launches that run; those in `captures`, during graph capture, do not. `unknown_device` counts
    events by category of devices other than CUDA's and ROCm's, if no activity of a known category ran; a device whose
    kernels have Kineto's own categories, such as XPU, is accounted like any other. `clock_shift_ns` is the shift of
    each activity to later than in the file, if the device's clock is behind the host's. `python_is_sampled` if samples
    of the stack show Python where the trace shows nothing of the host for long.
    """

    trace: Trace
    rank: int
    gpu: Activities
    calls: Launches
    launching_threads: frozenset[tuple[int, int]]
    steps: StepWindows
    has_gpu: bool
    captures: GraphCaptures = field(default_factory=lambda: GraphCaptures({}))
    unknown_device: Mapping[str, int] = field(default_factory=dict)
    clock_shift_ns: Ints | None = None
    python_is_sampled: bool = False

    @property
    def launches(self) -> int:
        """Number of launches that run."""
        return len(self.calls)

    @property
    def lost_launches(self) -> int:
        """Number of those that have no GPU activity."""
        return int(self.calls.lost.sum())

    @cached_property
    def other_gpus(self) -> OtherGpus:
        """The GPUs that the process uses, apart from the busiest."""
        return other_gpus_of(self.trace, self.gpu)

    @property
    def windows(self) -> Ints:
        """The step windows that time is accounted on: device steps, host steps without a GPU."""
        return self.steps.device if self.has_gpu else self.steps.host

    @cached_property
    def gpu_record(self) -> GpuRecord:
        """How much of what the GPU did is in the trace, and why none of it, or not all, is."""
        seen = Seen(self.has_gpu, bool(self.unknown_device), bool(self.device_properties))
        return gpu_record_of(self.trace, self.calls, self.captures, seen)

    @property
    def capture_failed(self) -> bool:
        """The job ran on a device of which no activity is there: not recorded, not known, or behind the file's cut."""
        return self.gpu_record in UNSEEN

    @property
    def is_empty(self) -> bool:
        """Neither the host's work nor the GPU's was recorded."""
        return self.gpu_record == "nothing recorded"

    @property
    def is_unlinked(self) -> bool:
        """There are GPU activities and calls that may launch them, and none is linked to another."""
        return self.has_gpu and not (self.gpu.launch >= 0).any() and bool(self.trace.rows_of(*RUNTIME).any())

    @cached_property
    def lost_in_steps(self) -> tuple[int, int]:
        """Kernel launches of the counted steps: those that have no GPU activity, and all."""
        return self.calls.during(self.steps.host)

    @property
    def device_name(self) -> str:
        """The GPU's name, "CPU" without one, "" if the trace does not name it."""
        if not self.has_gpu:
            return "CPU" if not self.capture_failed else str(self.device_properties.get("name", ""))
        return str(self.device_properties.get("name", ""))

    @property
    def device_properties(self) -> dict[str, Any]:
        """Kineto's properties of the device in use, empty when the trace has none."""
        listed = self.trace.metadata.get("deviceProperties")
        devices = [d for d in listed if isinstance(d, dict)] if isinstance(listed, list) else []
        index = int(self.trace.pid[self.gpu.row[0]]) if len(self.gpu) else 0
        return next((d for d in devices if d.get("id") == index), devices[0] if devices else {})

    def matching(self, pattern: str, *categories: str) -> Mask:
        """Mask of the trace's events whose name matches `pattern` from its start, within `categories`."""
        mask = np.zeros(len(self.trace), bool)
        mask[self.rows_matching(pattern, *categories)] = True
        return mask

    def rows_matching(self, pattern: str, *categories: str) -> Ints:
        """Rows, read-only, of the same events, in order."""
        key = pattern, categories
        if key not in self._rows_matching:
            rows = rows_in(np.flatnonzero(self.trace.named_in(re.compile(pattern).match, *categories)), len(self.trace))
            rows.flags.writeable = False
            self._rows_matching[key] = rows
        return self._rows_matching[key]

    @cached_property
    def _rows_matching(self) -> dict[tuple[str, tuple[str, ...]], Ints]:
        """Cache of `rows_matching`: stages and metrics ask for the same few patterns."""
        return {}

    def launched_under(self, pattern: str) -> Mask:
        """Mask, read-only, of the GPU activities launched while a range whose name matches `pattern` is open on any
        thread.
        """
        if pattern not in self._launched_under:
            self._launched_under[pattern] = self.launched_in(iv.intervals(*self._times(pattern)))
            self._launched_under[pattern].flags.writeable = False
        return self._launched_under[pattern]

    @cached_property
    def _launched_under(self) -> dict[str, Mask]:
        """Cache of `launched_under`: the backward pass is asked for many times."""
        return {}

    def launched_in(self, instants: iv.Intervals) -> Mask:
        """Mask of the GPU activities launched, by any thread, at one of the instants."""
        return iv.holds(instants, self.gpu.launch_start)

    def on_threads(self, threads: frozenset[tuple[int, int]]) -> Mask:
        """Mask, read-only, of the trace's events on any of the threads, each given by process and thread."""
        if threads not in self._on_threads:
            mask = on_any_thread(self.trace.pid, self.trace.tid, threads)
            mask.flags.writeable = False
            self._on_threads[threads] = mask
        return self._on_threads[threads]

    @cached_property
    def _on_threads(self) -> dict[frozenset[tuple[int, int]], Mask]:
        """Cache of `on_threads`: several stages ask for the threads that launch."""
        return {}

    @cached_property
    def optimizer_steps(self) -> iv.Intervals:
        """The instants at which an optimizer's step updates.

        A step that is given a closure runs forward and backward pass inside its range: it updates after the last
        backward function that ends in there.
        """
        begin, end = self._times(OPTIMIZER_STEP)
        backward = np.sort(self._times(BACKWARD)[1])
        last = np.searchsorted(backward, end, side="right") - 1
        if len(backward):
            begin = np.where(last >= 0, np.maximum(begin, backward[last]), begin)
        return iv.intervals(begin, end)

    @cached_property
    def launched_by_optimizer(self) -> Mask:
        """Mask of the GPU activities launched while an optimizer's step updates."""
        return self.launched_in(self.optimizer_steps)

    def _times(self, pattern: str) -> tuple[Ints, Ints]:
        rows = self.rows_matching(pattern, *ANNOTATIONS)
        return self.trace.ts[rows], self.trace.ends(rows)


def timeline_of(trace: Trace, rank: int, step_range: re.Pattern[str] | None = None) -> Timeline:
    """Link the events of one rank's trace and find its steps; `step_range`, if stated, matches the ranges that are
    steps.

    Raises:
        UserError: `step_range` matches none.
    """
    trace = correlated(trace)
    captures = graph_captures(trace)
    gpu, launches = activities_of(trace, captures)
    recorded, trace = trace, on_hosts_clock(trace, gpu)
    if trace is not recorded:
        gpu, launches = activities_of(trace, captures)
    return Timeline(
        trace=trace,
        rank=rank,
        gpu=gpu,
        calls=launches,
        launching_threads=_launching_threads(trace, gpu, launches),
        steps=_steps(trace, gpu, launches, captures, step_range),
        has_gpu=len(gpu) > 0,
        captures=captures,
        unknown_device={} if len(gpu) else _unknown_device(trace),
        clock_shift_ns=None if trace is recorded else trace.ts[gpu.row] - recorded.ts[gpu.row],
    )


def _launching_threads(trace: Trace, gpu: Activities, launches: Launches) -> frozenset[tuple[int, int]]:
    """The threads of launches and of operators that launch.

    If there are none, any thread that calls the runtime may launch, and if no such call is recorded, any that runs
    operators.
    """
    used = np.concatenate((gpu.launcher[gpu.launcher >= 0], launches.recorded))
    for categories in (RUNTIME, OPS):
        used = used if len(used) else np.flatnonzero(trace.rows_of(*categories))
    used = used[thread_turns(trace.pid[used], trace.tid[used])]
    return frozenset(zip(trace.pid[used].tolist(), trace.tid[used].tolist(), strict=True))


def _steps(
    trace: Trace, gpu: Activities, launches: Launches, captures: GraphCaptures, step_range: re.Pattern[str] | None
) -> StepWindows:
    """The counted steps; a graph capture counts as work of the step that it begins in."""
    marks, spans = host_steps(trace, step_range), captures.spans
    if not len(gpu):
        return host_only(trace, marks)
    whole = whole_steps(marks, launches)
    begin, end = (np.concatenate(pair) for pair in ((gpu.start, spans[:, 0]), (gpu.end, spans[:, 1])))
    return device_steps(trace, marks, begin, end, np.concatenate((gpu.launch_start, spans[:, 0])), whole)


def _unknown_device(trace: Trace) -> dict[str, int]:
    of_category = np.bincount(trace.cat, minlength=len(trace.cats))
    return {c: int(n) for c, n in zip(trace.cats, of_category, strict=True) if n and is_of_unknown_device(c)}


def thread_turns(pid: Ints, tid: Ints) -> Ints:
    """Positions in a list of events at which another thread than that of the event before has its turn."""
    turns = np.ones(len(pid), bool)
    turns[1:] = (pid[1:] != pid[:-1]) | (tid[1:] != tid[:-1])
    return np.flatnonzero(turns)


def grouped(numbers: Array) -> list[Ints]:
    """The positions of each distinct number, by number; within one in order. One sort, however many numbers."""
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1) if len(order) else []


# The events on given threads.

_FEW = 16  # threads are compared one by one, which is quicker than to number all of them


def on_any_thread(pid: Ints, tid: Ints, threads: AbstractSet[tuple[int, int]]) -> Mask:
    """Mask of the events on any of the threads, each of which is one of the events'."""
    if len(threads) > _FEW:
        return _among(pid, tid, threads)
    mask = np.zeros(len(pid), bool)
    for process, thread in threads:
        mask |= (pid == process) & (tid == thread)
    return mask


def _among(pid: Ints, tid: Ints, threads: AbstractSet[tuple[int, int]]) -> Mask:
    pids, of_pid = numbered(pid)
    tids, of_tid = numbered(tid)
    wanted = np.array(sorted(threads), np.int64)
    numbers = np.searchsorted(pids, wanted[:, 0]) * len(tids) + np.searchsorted(tids, wanted[:, 1])
    return np.isin(of_pid * len(tids) + of_tid, numbers)


# Move the times of a device whose clock is behind the host's to the host's clock, by the least shift that is needed.
#
# No activity begins before the call that launches it. If some seem to, the device's clock is behind the host's by at
# least as much. A drift shows in activities that begin on an idle device: these do not queue, so the time from their
# launch to their begin changes with the clocks alone.

_MAY_BE_EARLY = 0.01  # of the linked activities: single stamps and links are wrong now and then
_FEW_EARLY = 2  # that may be early of how few ever
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
    return max(int(_MAY_BE_EARLY * activities), _FEW_EARLY)


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
