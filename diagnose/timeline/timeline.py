"""One rank's trace as GPU activities linked to their launches, and the steps they belong to."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Array, Ids, Ints, Mask
from diagnose.timeline.kernel_names import COMMUNICATION, Kind, bound_by, classify
from diagnose.timeline.steps import StepWindows, device_steps, host_only, host_steps
from diagnose.trace import Trace
from diagnose.trace.vocabulary import ANNOTATIONS, BACKWARD, GPU_CATEGORIES, OPTIMIZER_STEP, RUNTIME

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
class Timeline:
    """One rank: its trace, the activities of its busiest device, the threads that launched them, and its steps."""

    trace: Trace
    rank: int
    gpu: Activities
    lost_launches: int
    launches: int
    launching_threads: frozenset[tuple[int, int]]
    steps: StepWindows
    has_gpu: bool

    @property
    def windows(self) -> Ints:
        """The step windows that time is accounted on: device steps, host steps without a GPU."""
        return self.steps.device if self.has_gpu else self.steps.host

    @property
    def capture_failed(self) -> bool:
        """The job ran on a GPU and not one of its activities is there: not recorded, or behind the cut of the file."""
        cut = self.trace.loss.truncated and bool(self.device_properties)
        return not self.has_gpu and (self.launches > 0 or cut)

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
        expression = re.compile(pattern)
        hits = np.array([expression.match(n) is not None for n in self.trace.names], bool)
        return self.trace.named(hits) & self.trace.rows_of(*categories) if hits.any() else self.trace.named(hits)

    def launched_under(self, pattern: str) -> Mask:
        """Mask of the GPU activities launched while a range whose name matches `pattern` is open on any thread."""
        return self.launched_in(iv.intervals(*self._times(pattern)))

    def launched_in(self, instants: iv.Intervals) -> Mask:
        """Mask of the GPU activities launched, by any thread, at one of the instants."""
        return iv.coverage(instants, self.gpu.launch_start, self.gpu.launch_start + 1) > 0

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


def timeline_of(trace: Trace, rank: int) -> Timeline:
    """Links and steps of one rank's trace."""
    gpu, launches, lost = _activities(trace)
    marks = host_steps(trace)
    has_gpu = len(gpu) > 0
    steps = device_steps(trace, marks, gpu.start, gpu.end, gpu.launch_start) if has_gpu else host_only(marks)
    linked = gpu.launch[gpu.launch >= 0]
    linked = linked[thread_turns(trace.pid[linked], trace.tid[linked])]
    threads = frozenset(zip(trace.pid[linked].tolist(), trace.tid[linked].tolist(), strict=True))
    return Timeline(trace, rank, gpu, lost, launches, threads, steps, has_gpu)


def thread_turns(pid: Ints, tid: Ints) -> Ints:
    """Positions in a list of events at which another thread than that of the event before has its turn."""
    return np.flatnonzero((np.diff(pid, prepend=-2) != 0) | (np.diff(tid, prepend=-2) != 0))


def grouped(numbers: Array) -> list[Ints]:
    """The positions of each distinct number, by number; within one in order. One sort, however many numbers."""
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1) if len(order) else []


def _activities(trace: Trace) -> tuple[Activities, int, int]:
    rows = np.flatnonzero(trace.rows_of(*GPU_CATEGORIES))
    if len(rows):
        busiest = _busiest(trace.pid[rows], trace.dur[rows])
        rows = rows[trace.pid[rows] == busiest]
    rows = rows[np.lexsort((trace.dur[rows], trace.correlation[rows], trace.stream[rows], trace.ts[rows]))]
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
    made, lost = _lost(trace, launch_rows)
    return activities, made, lost


def _busiest(device: Ints, dur: Ints) -> int:
    devices, index = np.unique(device, return_inverse=True)
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


_LAUNCHES = re.compile(r"(cuda|hip)(Ext)?(Module)?Launch(Cooperative)?Kernel|cuLaunchKernel|(cuda|hip)GraphLaunch")


def _lost(trace: Trace, launch_rows: Ints) -> tuple[int, int]:
    """How many kernel launches were recorded, and how many of them have no GPU activity."""
    launches = np.array([_LAUNCHES.match(n) is not None for n in trace.names], bool)
    made = trace.correlation[launch_rows[launches[trace.name[launch_rows]]]]
    seen = np.sort(trace.correlation[np.flatnonzero(trace.rows_of(*GPU_CATEGORIES))], kind="stable")
    if not len(seen):
        return len(made), len(made)
    at = np.searchsorted(seen, made)
    return len(made), int((seen[np.minimum(at, len(seen) - 1)] != made).sum())


def _kinds(trace: Trace, rows: Ints) -> tuple[Ids, tuple[Kind, ...]]:
    pairs = trace.name[rows].astype(np.int64) * len(trace.cats) + trace.cat[rows]
    distinct, index = np.unique(pairs, return_inverse=True)
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
