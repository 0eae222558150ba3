"""One rank's trace as GPU activities linked to their launches, and the steps they belong to."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Array, Ids, Ints, Mask, numbered, ordered
from diagnose.timeline.derived import Derived
from diagnose.timeline.graph_captures import GraphCaptures, graph_captures
from diagnose.timeline.kernel_names import COMMUNICATION, Kind, bound_by, classify
from diagnose.timeline.launches import Launches, launches_of
from diagnose.timeline.on_threads import on_any_thread
from diagnose.timeline.steps import StepWindows, device_steps, host_only, host_steps
from diagnose.trace import Trace
from diagnose.trace.vocabulary import (
    ANNOTATIONS,
    BACKWARD,
    GPU_CATEGORIES,
    OPTIMIZER_STEP,
    RUNTIME,
    is_of_unknown_device,
)

NOT_LAUNCHED = -1

_COPY_KIND = re.compile(r"\b(HtoD|DtoH|DtoD|PtoP|HtoH|DtoA)\b|(HostToDevice|DeviceToHost|DeviceToDevice)")
_COPY_ALIASES = {"HostToDevice": "HtoD", "DeviceToHost": "DtoH", "DeviceToDevice": "DtoD"}


@dataclass(frozen=True)
class Activities:
    """GPU activities of one device sorted by start; times in nanoseconds, `launch` is a row of the trace or -1.

    `kind` indexes `kinds`. `host_time` is when the activity was launched: its own launch, else that of the previous
    linked activity on its stream, else NOT_LAUNCHED for the head that was launched before the window.
    """

    row: Ints
    start: Ints
    end: Ints
    stream: Ids
    kind: Ids
    kinds: tuple[Kind, ...]
    launch: Ints
    launch_start: Ints
    launch_end: Ints

    def __len__(self) -> int:
        return len(self.row)

    def of_family(self, *families: str) -> Mask:
        """Mask of the activities whose kind is of one of the families."""
        if not len(self):
            return np.zeros(0, bool)
        return np.array([k.family in families for k in self.kinds], bool)[self.kind]

    def tagged(self, *tags: str) -> Mask:
        """Mask of the activities whose kind has one of the tags."""
        if not len(self):
            return np.zeros(0, bool)
        return np.array([not k.tags.isdisjoint(tags) for k in self.kinds], bool)[self.kind]

    @property
    def is_communication(self) -> Mask:
        """Mask of the collective kernels."""
        return self.of_family(COMMUNICATION)

    @property
    def is_copy(self) -> Mask:
        """Mask of copies and fills done by the copy engine."""
        return self.of_family("memcpy", "memset")

    @property
    def is_compute_bound(self) -> Mask:
        """Mask of the kernels that the matrix units bound, judged by kind."""
        if not len(self):
            return np.zeros(0, bool)
        return np.array([bound_by(k) == "compute" for k in self.kinds], bool)[self.kind]


@dataclass(frozen=True)
class Timeline(Derived):
    """One rank: its trace, the activities of its busiest device, the threads that launched them, and its steps.

    `launches` are those that run: the ones of `captures`, where graphs are captured, do not. `unknown_device` counts
    the events in categories of other devices than CUDA's and ROCm's, where no activity of a known category ran: one
    whose kernels are in Kineto's own words, as XPU's, is accounted like any other.
    """

    trace: Trace
    rank: int
    gpu: Activities
    lost_launches: int
    launches: int
    launching_threads: frozenset[tuple[int, int]]
    steps: StepWindows
    has_gpu: bool
    captures: GraphCaptures = field(default_factory=lambda: GraphCaptures({}))
    unknown_device: Mapping[str, int] = field(default_factory=dict)

    @property
    def windows(self) -> Ints:
        """The step windows that time is accounted on: device steps, host steps without a GPU."""
        return self.steps.device if self.has_gpu else self.steps.host

    @property
    def capture_failed(self) -> bool:
        """The job ran on a device of which no activity is there: not recorded, not known, or behind the file's cut."""
        cut = self.trace.loss.truncated and bool(self.device_properties)
        return not self.has_gpu and (self.launches > 0 or cut or bool(self.unknown_device))

    @property
    def device_name(self) -> str:
        """The GPU's name, "CPU" without one, "" when the trace does not say."""
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
        return self.trace.named_in(re.compile(pattern).match, *categories)

    def launched_under(self, pattern: str) -> Mask:
        """Mask of the GPU activities launched while a range whose name matches `pattern` is open on any thread."""
        return self.launched_in(iv.intervals(*self._times(pattern)))

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
        """Those of `on_threads`: several stages ask for the threads that launch."""
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

    def _times(self, pattern: str) -> tuple[Ints, Ints]:
        rows = np.flatnonzero(self.matching(pattern, *ANNOTATIONS))
        return self.trace.ts[rows], self.trace.ends(rows)


def timeline_of(trace: Trace, rank: int, step_range: re.Pattern[str] | None = None) -> Timeline:
    """Links and steps of one rank's trace; `step_range` finds the ranges that are steps, where the user states them.

    Raises:
        UserError: it finds none.
    """
    captures = graph_captures(trace)
    gpu, launches = _activities(trace, captures)
    used = np.concatenate((gpu.launch[gpu.launch >= 0], launches.recorded))
    used = used if len(used) else np.flatnonzero(trace.rows_of(*RUNTIME))  # calls without ids: any of them may launch
    used = used[thread_turns(trace.pid[used], trace.tid[used])]
    return Timeline(
        trace=trace,
        rank=rank,
        gpu=gpu,
        lost_launches=launches.lost,
        launches=launches.made,
        launching_threads=frozenset(zip(trace.pid[used].tolist(), trace.tid[used].tolist(), strict=True)),
        steps=_steps(trace, gpu, captures, step_range),
        has_gpu=len(gpu) > 0,
        captures=captures,
        unknown_device={} if len(gpu) else _unknown_device(trace),
    )


def _steps(trace: Trace, gpu: Activities, captures: GraphCaptures, step_range: re.Pattern[str] | None) -> StepWindows:
    """The counted steps; a graph capture counts as work of the step that it begins in."""
    marks, spans = host_steps(trace, step_range), captures.spans
    if not len(gpu):
        return host_only(trace, marks)
    begin, end = (np.concatenate(pair) for pair in ((gpu.start, spans[:, 0]), (gpu.end, spans[:, 1])))
    return device_steps(trace, marks, begin, end, np.concatenate((gpu.launch_start, spans[:, 0])))


def _unknown_device(trace: Trace) -> dict[str, int]:
    of_category = np.bincount(trace.cat, minlength=len(trace.cats))
    return {c: int(n) for c, n in zip(trace.cats, of_category, strict=True) if n and is_of_unknown_device(c)}


def thread_turns(pid: Ints, tid: Ints) -> Ints:
    """Positions in a list of events at which another thread than that of the event before has its turn."""
    return np.flatnonzero((np.diff(pid, prepend=pid[:1] - 1) != 0) | (np.diff(tid, prepend=tid[:1] - 1) != 0))


def grouped(numbers: Array) -> list[Ints]:
    """The positions of each distinct number, by number; within one in order. One sort, however many numbers."""
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1) if len(order) else []


def _activities(trace: Trace, captures: GraphCaptures) -> tuple[Activities, Launches]:
    rows = np.flatnonzero(trace.rows_of(*GPU_CATEGORIES))
    if len(rows):
        busiest = _busiest(trace.pid[rows], trace.dur[rows])
        rows = rows[trace.pid[rows] == busiest]
    rows = rows[ordered(trace.ts[rows], trace.stream[rows], trace.correlation[rows], trace.dur[rows])]
    launch_rows = np.flatnonzero(trace.rows_of(*RUNTIME) & (trace.correlation > 0))
    launch_rows = launch_rows[np.argsort(trace.correlation[launch_rows], kind="stable")]
    launch = _linked(trace, rows, launch_rows)
    kind, kinds = _kinds(trace, rows)
    start, end = _inherited_launch(trace, rows, launch)
    activities = Activities(
        row=rows,
        start=trace.ts[rows],
        end=trace.ts[rows] + trace.dur[rows],
        stream=trace.stream[rows],
        kind=kind,
        kinds=kinds,
        launch=launch,
        launch_start=start,
        launch_end=end,
    )
    return activities, launches_of(trace, launch_rows, captures)


def _busiest(device: Ints, dur: Ints) -> int:
    devices, index = numbered(device)
    return int(devices[np.argmax(np.bincount(index, weights=dur))])


def _linked(trace: Trace, rows: Ints, launch_rows: Ints) -> Ints:
    """For each GPU row, the runtime call with its correlation, else -1."""
    correlation = trace.correlation[launch_rows]
    at = np.searchsorted(correlation, trace.correlation[rows])
    at_safe = np.minimum(at, max(len(correlation) - 1, 0))
    if not len(correlation):
        return np.full(len(rows), NOT_LAUNCHED, np.int64)
    hit = (correlation[at_safe] == trace.correlation[rows]) & (trace.correlation[rows] > 0)
    return np.where(hit, launch_rows[at_safe], NOT_LAUNCHED)


def _inherited_launch(trace: Trace, rows: Ints, launch: Ints) -> tuple[Ints, Ints]:
    """Launch times; an unlinked activity inherits those of the previous linked one on its stream."""
    by_stream = np.argsort(trace.stream[rows], kind="stable")
    stream, launch_row = trace.stream[rows][by_stream], launch[by_stream]
    last = np.maximum.accumulate(np.where(launch_row >= 0, np.arange(len(launch_row)), -1))
    known = last >= np.searchsorted(stream, stream)
    absent = np.iinfo(np.int64).min
    start, end = np.full(len(rows), absent), np.full(len(rows), absent)
    start[by_stream[known]] = trace.ts[launch_row[last[known]]]
    end[by_stream[known]] = trace.ends(launch_row[last[known]])
    return start, end


def _kinds(trace: Trace, rows: Ints) -> tuple[Ids, tuple[Kind, ...]]:
    pairs = trace.name[rows].astype(np.int64) * len(trace.cats) + trace.cat[rows]
    distinct, index = numbered(pairs)
    kinds = [_kind(trace.names[p // len(trace.cats)], trace.cats[p % len(trace.cats)]) for p in distinct]
    unique = tuple(dict.fromkeys(kinds))
    number = {k: i for i, k in enumerate(unique)}
    return np.array([number[k] for k in kinds], np.int32)[index] if len(rows) else np.zeros(0, np.int32), unique


def _kind(name: str, category: str) -> Kind:
    category = category.lower()
    if category.endswith("memset"):
        return Kind("memset", "memset")
    if category.endswith("memcpy"):
        match = _COPY_KIND.search(name)
        return Kind("memcpy", _COPY_ALIASES.get(match[0], match[0]) if match else "unknown")
    return classify(name)
