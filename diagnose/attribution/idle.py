"""Causes of an idle device: each gap is cut at the next launch and painted with the host's activity.

The first match wins.
"""

import re
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Ints, Mask
from diagnose.attribution.causes import GRAPH_CAPTURE, OPERATOR_GAP, OTHER_GPU
from diagnose.attribution.operator_gaps import operator_gaps
from diagnose.intervals import Intervals
from diagnose.timeline import Timeline
from diagnose.trace.vocabulary import (
    ANNOTATIONS,
    COPY_CALL,
    DATA_WAIT,
    DEVICE_ALLOCATION,
    HOST_ALLOCATION,
    LOGGING,
    OPS,
    PYTHON,
    READ_BACK,
    RUNTIME,
    STEP_MARK,
    SYNCHRONISATION,
)

LAUNCH_LATENCY_NS = 20_000
LONG_LAUNCH_NS = 500_000
LONG_COPY_CALL_NS = 50_000
SYNC_BLOCK_NS = 20_000
PYTHON_HOLE_NS = 1_000_000


_COMPILE = re.compile(
    r"cuModuleLoad|cuModuleUnload|cuLibraryLoad|hipModuleLoad|Runtime Triggered Module Loading|Lazy Function Loading"
    r"|Driver Compiler|zeModuleCreate|urProgramBuild"
    r"|.*compile_fx|_compile\.compile_inner|.*PyCodeCache\.load|async_compile\.wait"
)


def idle_causes(timeline: Timeline, idle: Intervals, busy: Intervals) -> Iterator[tuple[str, Intervals]]:
    """Divides the idle instants of a device among causes; the parts are disjoint and cover `idle`.

    Args:
        timeline: one rank with GPU activities.
        idle: the instants of the counted steps at which the device is inactive.
        busy: the instants at which it is active, also outside the steps.
    """
    if not len(idle):
        return
    waiting, latency, gap, queued = _cut_at_launch(timeline, idle)
    host = Host(timeline)
    for cause, pieces in host.layers(waiting, busy):
        painted = iv.intersect(waiting, pieces)
        waiting = iv.subtract(waiting, painted)
        yield host.observed(cause), painted
    untraced = untraced_of(timeline, waiting)
    yield host.observed("python"), iv.subtract(waiting, untraced)
    yield "untraced", untraced
    yield "launch-latency", latency
    yield "kernel-gap", gap
    elsewhere = timeline.other_gpus.busy
    yield OTHER_GPU, iv.intersect(queued, elsewhere)
    yield "queued-on-idle-device", iv.subtract(queued, elsewhere)


def untraced_of(timeline: Timeline, waiting: Intervals) -> Intervals:
    """The time that nothing on the host explains and that is too long for the Python between two operators.

    There is none if samples of the stack say that the training thread runs Python there.
    """
    return iv.EMPTY if timeline.python_is_sampled else iv.longer_than(waiting, PYTHON_HOLE_NS)


def _cut_at_launch(timeline: Timeline, idle: Intervals) -> tuple[Intervals, Intervals, Intervals, Intervals]:
    """Idle time before the next launch returns; then launch latency, gaps between queued work, and the rest."""
    gpu = timeline.gpu
    following = np.searchsorted(gpu.start, idle[:, 1], side="left")
    safe = np.minimum(following, len(gpu) - 1)
    returned = np.where(following < len(gpu), gpu.launch_end[safe], np.iinfo(np.int64).min)
    launched = (following < len(gpu)) & (gpu.launch[safe] >= 0)
    cut = np.where(launched, np.clip(returned, idle[:, 0], idle[:, 1]), idle[:, 1])
    late = np.minimum(cut + LAUNCH_LATENCY_NS, idle[:, 1])
    ahead = launched & (returned <= idle[:, 0])
    return (
        iv.intervals(idle[:, 0], cut),
        iv.intervals(cut[~ahead], late[~ahead]),
        iv.intervals(cut[ahead], late[ahead]),
        iv.intervals(late, idle[:, 1]),
    )


class Host:
    """Activities of the launching threads, as sets of instants.

    Args:
        timeline: one rank.
        span: begin and end of the time in question, None for all; the sets may leave out what lies beyond.
    """

    def __init__(self, timeline: Timeline, span: tuple[int, int] | None = None) -> None:
        self.timeline = timeline
        self.trace = timeline.trace
        self._span = span
        self.runtime = self.trace.rows_of(*RUNTIME) & self._launching

    @cached_property
    def _launching(self) -> Mask:
        """Mask of the events on threads that launch; main and autograd threads hand over to each other."""
        return self.timeline.on_threads(self.timeline.launching_threads)

    def _named(self, pattern: re.Pattern[str]) -> Mask:
        return self.trace.named(pattern.match)

    def _calls(self, pattern: str) -> Mask:
        """Mask of the calls into the runtime by threads that launch whose name matches the pattern."""
        return self.timeline.matching(pattern, *RUNTIME) & self._launching

    def _set(self, mask: Mask) -> Intervals:
        return iv.of_events(self.trace.ts, self.trace.dur, mask if self._span is None else mask & self._in_span)

    @cached_property
    def _in_span(self) -> Mask:
        begin, end = self._span or (0, 0)
        return iv.overlapping(self.trace.ts, self.trace.dur, begin, end)

    def observed(self, cause: str) -> str:
        """The cause, or "untraced" for Python if the trace cannot show it, as without operators (Nsight Systems)."""
        return "untraced" if cause == "python" and not self._tells_python else cause

    @cached_property
    def _tells_python(self) -> bool:
        return not self.trace.of_nsight or bool(self.trace.rows_of(*OPS, *PYTHON).any())

    def layers(self, idle: Intervals, busy: Intervals) -> Iterator[tuple[str, Intervals]]:
        """Causes in order of precedence with the instants at which each holds."""
        launching, trace = self._launching, self.trace
        yield GRAPH_CAPTURE, self.timeline.captures.spans
        data_wait = self.timeline.matching(DATA_WAIT, *ANNOTATIONS)
        yield "data-wait", self._set(data_wait & launching)
        yield "allocation", self._set(self._calls(DEVICE_ALLOCATION))
        yield "host-allocation", self._set(self._calls(HOST_ALLOCATION))
        long_launch = self._calls(".*Launch") & (trace.dur > LONG_LAUNCH_NS)
        compiling = self._named(_COMPILE) & ~trace.rows_of("gpu_user_annotation")
        yield "compile", self._set(compiling | long_launch)
        yield "gc", self._set(self._named(re.compile("Python GC")))
        yield "logging", self._set(self.timeline.matching(LOGGING, *ANNOTATIONS))
        to_device, to_host = self.long_copies()
        yield "host-to-device", self._set(to_device)
        sync = self._set(self._calls(SYNCHRONISATION) | (self.runtime & to_host))
        yield OTHER_GPU, iv.intersect(sync, self.timeline.other_gpus.busy)
        yield "sync", _bubbles(sync, idle, busy)
        yield "sync", self._set(self.timeline.matching(READ_BACK, *OPS) & launching)  # the calls go with the read-back
        yield "optimizer-host", self.timeline.optimizer_steps
        yield OPERATOR_GAP, operator_gaps(self.timeline).instants
        waits = self.timeline.matching(SYNCHRONISATION, *OPS, *RUNTIME)
        calls = self._set(launching & trace.rows_of(*OPS, *RUNTIME) & ~waits)
        yield "dispatch", calls
        yield "sync", sync
        yield "data-wait", self._set(data_wait)  # a prefetching thread: it counts when no launching thread works
        yield "python", self._set(launching & (trace.rows_of(*PYTHON) | self._ranges()))

    def _ranges(self) -> Mask:
        """Mask of the user's own ranges, step markers left out: inside one the host is in known code."""
        return self.trace.rows_of("user_annotation") & ~self.timeline.matching(STEP_MARK, "user_annotation")

    def long_copies(self) -> tuple[Mask, Mask]:
        """Calls of copies that block the host: those to the device, and those to the host, by the copy launched."""
        gpu = self.timeline.gpu
        to_host = np.zeros(len(self.trace), bool)
        down = np.array([k.sub == "DtoH" for k in gpu.kinds], bool)[gpu.kind] & (gpu.launch >= 0)
        to_host[gpu.launch[down]] = True
        long = self._calls(COPY_CALL) & (self.trace.dur > LONG_COPY_CALL_NS)
        return long & ~to_host, long & to_host


def _bubbles(sync: Intervals, idle: Intervals, busy: Intervals) -> Intervals:
    """Idle time after a wait for the device, up to what the host lost in that wait.

    A host that waits for `b` ns while the device works could have run `b` ns ahead: the idle time until its next wait
    is due to the wait up to `b`, and to the host beyond.
    """
    blocked = iv.coverage(busy, sync[:, 0], sync[:, 1])
    until = np.append(sync[1:, 0], np.iinfo(np.int64).max)
    long = blocked >= SYNC_BLOCK_NS
    waits = np.stack((sync[long, 0], until[long]), axis=1)
    after = iv.intersect(idle, waits)
    wait = np.searchsorted(waits[:, 0], after[:, 0], side="right") - 1
    return _first_ns(after, wait, blocked[long])


def _first_ns(pieces: Intervals, group: Ints, ns: Ints) -> Intervals:
    """The first `ns` nanoseconds of each group of pieces; `group` numbers them and ascends."""
    lengths = pieces[:, 1] - pieces[:, 0]
    before = np.cumsum(lengths) - lengths
    left = ns[group] - (before - before[np.searchsorted(group, group)])
    return iv.intervals(pieces[:, 0], np.minimum(pieces[:, 1], pieces[:, 0] + np.maximum(left, 0)))
