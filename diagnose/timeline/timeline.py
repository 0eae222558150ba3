"""One rank's trace as GPU activities linked to their launches, and the steps they belong to."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Array, Ints, Mask, rows_in
from diagnose.timeline.activities import Activities, activities_of
from diagnose.timeline.derived import Derived
from diagnose.timeline.device_clock import on_hosts_clock
from diagnose.timeline.external_ids import correlated
from diagnose.timeline.graph_captures import GraphCaptures, graph_captures
from diagnose.timeline.launches import Launches
from diagnose.timeline.on_threads import on_any_thread
from diagnose.timeline.other_gpus import OtherGpus, other_gpus_of
from diagnose.timeline.steps import StepWindows, device_steps, host_only, host_steps, whole_steps
from diagnose.trace import Trace
from diagnose.trace.vocabulary import (
    ANNOTATIONS,
    BACKWARD,
    OPS,
    OPTIMIZER_STEP,
    RUNTIME,
    is_of_unknown_device,
)


@dataclass(frozen=True)
class Timeline(Derived):
    """One rank: its trace, the activities of its busiest device, the threads that launched them, and its steps.

    `launches` are those that run: the ones of `captures`, where graphs are captured, do not. `unknown_device` counts
    the events in categories of other devices than CUDA's and ROCm's, where no activity of a known category ran: one
    whose kernels are in Kineto's own words, as XPU's, is accounted like any other. `clock_shift_ns` is by how much
    later each activity is than the file has it, where the device's clock is behind the host's. `python_is_sampled` if
    samples of the stack say that Python runs where the trace shows nothing of the host for long.
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
    clock_shift_ns: Ints | None = None
    python_is_sampled: bool = False

    @cached_property
    def other_gpus(self) -> OtherGpus:
        """The GPUs that the process drives beside the busiest."""
        return other_gpus_of(self.trace, self.gpu)

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
    def is_unlinked(self) -> bool:
        """There are GPU activities and calls that may launch them, and none is linked to another."""
        return self.has_gpu and not (self.gpu.launch >= 0).any() and bool(self.trace.rows_of(*RUNTIME).any())

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
        """Those of `rows_matching`: stages and metrics ask for the same few patterns."""
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
        """Those of `launched_under`: the backward pass is asked for again and again."""
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

    @cached_property
    def launched_by_optimizer(self) -> Mask:
        """Mask of the GPU activities launched while an optimizer's step updates."""
        return self.launched_in(self.optimizer_steps)

    def _times(self, pattern: str) -> tuple[Ints, Ints]:
        rows = self.rows_matching(pattern, *ANNOTATIONS)
        return self.trace.ts[rows], self.trace.ends(rows)


def timeline_of(trace: Trace, rank: int, step_range: re.Pattern[str] | None = None) -> Timeline:
    """Links and steps of one rank's trace; `step_range` finds the ranges that are steps, where the user states them.

    Raises:
        UserError: it finds none.
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
        lost_launches=int(launches.lost.sum()),
        launches=len(launches.at),
        launching_threads=_launching_threads(trace, gpu, launches),
        steps=_steps(trace, gpu, launches, captures, step_range),
        has_gpu=len(gpu) > 0,
        captures=captures,
        unknown_device={} if len(gpu) else _unknown_device(trace),
        clock_shift_ns=None if trace is recorded else trace.ts[gpu.row] - recorded.ts[gpu.row],
    )


def _launching_threads(trace: Trace, gpu: Activities, launches: Launches) -> frozenset[tuple[int, int]]:
    """The threads of launches and of operators that launch. Where none is known, any that calls the runtime may launch,
    and where no such call is recorded, any that runs operators.
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
    whole = whole_steps(marks, launches.at, launches.cut)
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
