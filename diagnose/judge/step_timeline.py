"""One step as it can be drawn: streams, the threads that launch, and why the device waits; short slices merged."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import cast

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Array, Ints, Labels, Mask, numbered, ordered
from diagnose.attribution.attribution import cause_of
from diagnose.attribution.causes import WITHOUT_KERNELS, class_of
from diagnose.diagnosis import LaneKind, SliceClass, StepTimeline
from diagnose.judge.lanes import Key, Row, bounded, clipped, named
from diagnose.metrics import Measured
from diagnose.timeline import thread_turns
from diagnose.trace.vocabulary import (
    ANNOTATIONS,
    COMMUNICATION_RANGES,
    DATA_WAIT,
    OPS,
    RUNTIME,
    STEP_MARKS,
    SYNCHRONISATION,
)

BUDGET: dict[LaneKind, int] = {"cause": 800, "stream": 1200, "thread": 1000}  # slices of each kind of lane
STREAMS, THREADS, DEPTH = 8, 4, 2
LONGEST_LABEL = 200


def step_timeline(measured: Measured) -> StepTimeline | None:
    """The step of median length with at most 3,000 slices; None when nothing was recorded in it."""
    windows = measured.timeline.windows
    if not len(windows):
        return None
    at = int(np.argsort(windows[:, 1] - windows[:, 0], kind="stable")[(len(windows) - 1) // 2])
    begin, end = (int(t) for t in windows[at])
    beside, left_out = streams_and_threads(measured, begin, end)
    rows = [clipped(row, begin, end) for row in (*_causes(measured, begin, end), *beside)]
    labels: dict[Key, int] = {}
    lanes, merged_below = bounded([row for row in rows if len(row.start)], end - begin, BUDGET, labels)
    numbers = measured.timeline.steps.numbers
    return StepTimeline(
        rank=measured.timeline.rank,
        step=numbers[at] if at < len(numbers) else at,
        length_ns=end - begin,
        labels=named(labels),
        lanes=lanes,
        merged_below_ns=merged_below,
        lanes_left_out=left_out,
    )


def streams_and_threads(measured: Measured, begin: int, end: int) -> tuple[list[Row], int]:
    """The rows of the busiest streams and threads of a window, and how many have none."""
    streams, more_streams = _streams(measured, begin, end)
    threads, more_threads = _threads(measured, begin, end)
    return [*streams, *threads], more_streams + more_threads


def _causes(measured: Measured, begin: int, end: int) -> Iterator[Row]:
    """Yield the pieces of a window in which the device idles or waits and no kernel runs; none if that is unknown."""
    if not measured.timeline.capture_failed:
        yield causes_row(measured, begin, end, "idle and waiting", "cause", WITHOUT_KERNELS)


def causes_row(
    measured: Measured, begin: int, end: int, name: str, kind: LaneKind, chosen: Collection[str] | None = None
) -> Row:
    """The pieces of a window by cause, all of them or those of the chosen causes."""
    pieces = measured.attribution
    wanted = np.array([chosen is None or cause in chosen for cause in pieces.causes], bool)
    first, last = np.searchsorted(pieces.end, begin, side="right"), np.searchsorted(pieces.start, end)
    at = first + np.flatnonzero(wanted[pieces.cause[first:last]]) if last > first else np.zeros(0, np.int64)
    keys = [(cause, class_of(cause)) for cause in pieces.causes]
    return Row(name, kind, pieces.start[at], pieces.end[at], pieces.cause[at].astype(np.int64), keys)


def _streams(measured: Measured, begin: int, end: int) -> tuple[list[Row], int]:
    """A row for each of the streams that are busiest in a window, and how many there are besides."""
    gpu, trace = measured.timeline.gpu, measured.timeline.trace
    at = np.flatnonzero((gpu.start < end) & (gpu.end > begin))
    judged = measured.roofline.class_[at] if len(at) else Labels.all_alike("", 0)
    classes = judged.otherwise(
        ~judged.are(""), Labels.of([class_of(cause_of(kind)) for kind in gpu.kinds], gpu.kind[at])
    )
    label, keys = _labelled(trace.name[gpu.row[at]], classes, trace.names)
    streams, number = numbered(gpu.stream[at])
    busiest = np.argsort(-np.bincount(number, weights=(gpu.end - gpu.start)[at]), kind="stable")[:STREAMS]
    rows = [
        Row(f"stream {streams[i]}", "stream", gpu.start[at][of_stream], gpu.end[at][of_stream], label[of_stream], keys)
        for i in sorted(busiest.tolist())
        for of_stream in [number == i]
    ]
    return rows, len(streams) - len(rows)


def _threads(measured: Measured, begin: int, end: int) -> tuple[list[Row], int]:
    """Rows for the outer calls and the runtime calls of the busiest threads, launching ones first."""
    trace, timeline = measured.timeline.trace, measured.timeline
    inside = iv.overlapping(trace.ts, trace.dur, begin, end)
    step_marks = trace.named(lambda name: name.startswith(STEP_MARKS))
    calls = np.flatnonzero(trace.rows_of(*ANNOTATIONS, *OPS, *RUNTIME) & inside & ~step_marks)
    on_pid, on_tid = trace.pid[calls], trace.tid[calls]
    by_thread = _time_by_thread(on_pid, on_tid, np.minimum(trace.dur[calls], end - begin))
    chosen = timeline.launching_threads & by_thread.keys() or by_thread.keys()
    ordered = sorted(chosen, key=lambda thread: -by_thread[thread])
    rows: list[Row] = []
    for pid, tid in ordered[:THREADS]:
        rows += _calls(measured, calls[(on_pid == pid) & (on_tid == tid)], f"thread {tid}")
    return rows, len(ordered[THREADS:])


def _time_by_thread(pid: Ints, tid: Ints, ns: Ints) -> Counter[tuple[int, int]]:
    """The sum of `ns` for each thread; consecutive calls of one thread are added up first."""
    by_thread: Counter[tuple[int, int]] = Counter()
    turns = thread_turns(pid, tid)
    if len(turns):
        for thread, time in zip(zip(pid[turns], tid[turns], strict=True), np.add.reduceat(ns, turns), strict=True):
            by_thread[int(thread[0]), int(thread[1])] += int(time)
    return by_thread


def _calls(measured: Measured, rows: Ints, name: str) -> Iterator[Row]:
    """The outermost calls, those inside them, and the calls into the runtime."""
    trace = measured.timeline.trace
    runtime = trace.rows_of(*RUNTIME)[rows]
    left = _sorted(measured, rows[~runtime])
    for depth in range(DEPTH):
        top = _outermost(trace.ts[left], trace.ends(left))
        yield _host_row(measured, f"{name}{', inside' * depth}", left[top])
        left = left[~top]
    calls = _sorted(measured, rows[runtime])
    calls = calls[_outermost(trace.ts[calls], trace.ends(calls))]
    yield _host_row(measured, f"{name}, runtime", calls)


def _sorted(measured: Measured, rows: Ints) -> Ints:
    trace = measured.timeline.trace
    return rows[ordered(trace.ts[rows], -trace.dur[rows])]


def _outermost(start: Ints, end: Ints) -> Mask:
    """Mask of the calls, sorted by start, that begin when every earlier one has ended."""
    if not len(end):
        return np.zeros(0, bool)
    reached = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(end)[:-1]))
    return start >= reached


def _host_row(measured: Measured, name: str, rows: Ints) -> Row:
    timeline, trace = measured.timeline, measured.timeline.trace
    classes = Labels.all_alike("", len(rows))
    for pattern, class_ in ((DATA_WAIT, "data"), (SYNCHRONISATION, "host"), (COMMUNICATION_RANGES, "communication")):
        classes = classes.but(timeline.matching(pattern, *ANNOTATIONS, *RUNTIME)[rows], class_)
    label, keys = _labelled(trace.name[rows], classes, trace.names)
    return Row(name, "thread", trace.ts[rows], trace.ends(rows), label, keys)


def _labelled(name: Array, classes: Labels, names: Sequence[str]) -> tuple[Ints, list[Key]]:
    """A number for each distinct (name, class), and what the numbers stand for."""
    known = classes.names
    pairs, number = numbered(name.astype(np.int64) * len(known) + classes.code)
    keys = [(names[p // len(known)][:LONGEST_LABEL], cast(SliceClass, known[p % len(known)])) for p in pairs.tolist()]
    return number, keys
