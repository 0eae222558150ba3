"""One step as it can be drawn: streams, the threads that launch, and why the device waits; short slices merged."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import cast

import msgspec
import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Array, Ints, Labels, Mask, numbered, ordered
from diagnose.attribution.attribution import cause_of
from diagnose.attribution.causes import WITHOUT_KERNELS, class_of
from diagnose.diagnosis import Lane, LaneKind, SliceClass, SliceLabel, StepTimeline
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
FINEST = 20_000  # slices shorter than this part of the step are no wider than a pixel even when zoomed ten times
LONGEST_LABEL = 200

Key = tuple[str, SliceClass]


class _Row(msgspec.Struct, frozen=True):
    """Slices of one lane, disjoint and by start, on the trace's clock; `label` indexes `keys`."""

    name: str
    kind: LaneKind
    start: Ints
    end: Ints
    label: Ints
    keys: Sequence[Key]


def step_timeline(measured: Measured) -> StepTimeline | None:
    """The step of median length with at most 3,000 slices; None when nothing was recorded in it."""
    windows = measured.timeline.windows
    if not len(windows):
        return None
    at = int(np.argsort(windows[:, 1] - windows[:, 0], kind="stable")[(len(windows) - 1) // 2])
    begin, end = (int(t) for t in windows[at])
    streams, more_streams = _streams(measured, begin, end)
    threads, more_threads = _threads(measured, begin, end)
    rows = [_clipped(row, begin, end) for row in (*_causes(measured, begin, end), *streams, *threads)]
    lanes, labels, merged_below = _bounded([row for row in rows if len(row.start)], begin, end - begin)
    numbers = measured.timeline.steps.numbers
    return StepTimeline(
        rank=measured.timeline.rank,
        step=numbers[at] if at < len(numbers) else at,
        length_ns=end - begin,
        labels=labels,
        lanes=lanes,
        merged_below_ns=merged_below,
        lanes_left_out=more_streams + more_threads,
    )


def _causes(measured: Measured, begin: int, end: int) -> Iterator[_Row]:
    """Yield the pieces of a window in which the device idles or waits and no kernel runs; none if that is unknown."""
    if measured.timeline.capture_failed:
        return
    pieces = measured.attribution
    waits = np.array([cause in WITHOUT_KERNELS for cause in pieces.causes], bool)
    first, last = np.searchsorted(pieces.end, begin, side="right"), np.searchsorted(pieces.start, end)
    at = first + np.flatnonzero(waits[pieces.cause[first:last]]) if last > first else np.zeros(0, np.int64)
    keys = [(cause, class_of(cause)) for cause in pieces.causes]
    yield _Row("idle and waiting", "cause", pieces.start[at], pieces.end[at], pieces.cause[at].astype(np.int64), keys)


def _streams(measured: Measured, begin: int, end: int) -> tuple[list[_Row], int]:
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
        _Row(f"stream {streams[i]}", "stream", gpu.start[at][of_stream], gpu.end[at][of_stream], label[of_stream], keys)
        for i in sorted(busiest.tolist())
        for of_stream in [number == i]
    ]
    return rows, len(streams) - len(rows)


def _threads(measured: Measured, begin: int, end: int) -> tuple[list[_Row], int]:
    """Rows for the outer calls and the runtime calls of the busiest threads, launching ones first."""
    trace, timeline = measured.timeline.trace, measured.timeline
    inside = iv.overlapping(trace.ts, trace.dur, begin, end)
    step_marks = trace.named(lambda name: name.startswith(STEP_MARKS))
    calls = np.flatnonzero(trace.rows_of(*ANNOTATIONS, *OPS, *RUNTIME) & inside & ~step_marks)
    on_pid, on_tid = trace.pid[calls], trace.tid[calls]
    by_thread = _time_by_thread(on_pid, on_tid, np.minimum(trace.dur[calls], end - begin))
    chosen = timeline.launching_threads & by_thread.keys() or by_thread.keys()
    ordered = sorted(chosen, key=lambda thread: -by_thread[thread])
    rows: list[_Row] = []
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


def _calls(measured: Measured, rows: Ints, name: str) -> Iterator[_Row]:
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


def _host_row(measured: Measured, name: str, rows: Ints) -> _Row:
    timeline, trace = measured.timeline, measured.timeline.trace
    classes = Labels.all_alike("", len(rows))
    for pattern, class_ in ((DATA_WAIT, "data"), (SYNCHRONISATION, "host"), (COMMUNICATION_RANGES, "communication")):
        classes = classes.but(timeline.matching(pattern, *ANNOTATIONS, *RUNTIME)[rows], class_)
    label, keys = _labelled(trace.name[rows], classes, trace.names)
    return _Row(name, "thread", trace.ts[rows], trace.ends(rows), label, keys)


def _labelled(name: Array, classes: Labels, names: Sequence[str]) -> tuple[Ints, list[Key]]:
    """A number for each distinct (name, class), and what the numbers stand for."""
    known = classes.names
    pairs, number = numbered(name.astype(np.int64) * len(known) + classes.code)
    keys = [(names[p // len(known)][:LONGEST_LABEL], cast(SliceClass, known[p % len(known)])) for p in pairs.tolist()]
    return number, keys


def _clipped(row: _Row, begin: int, end: int) -> _Row:
    start, stop = np.clip(row.start, begin, end), np.clip(row.end, begin, end)
    keep = stop > start
    return _Row(row.name, row.kind, start[keep], stop[keep], row.label[keep], row.keys)


def _bounded(rows: Sequence[_Row], begin: int, length: int) -> tuple[tuple[Lane, ...], tuple[SliceLabel, ...], int]:
    """The lanes, their labels, and the longest slice that was merged with its neighbours."""
    below = {kind: _resolution([r for r in rows if r.kind == kind], length, most) for kind, most in BUDGET.items()}
    numbers: dict[Key, int] = {}
    lanes = []
    for row in rows:
        start, end, label, count = _merged(row, below[row.kind])
        label_numbers = [numbers.setdefault(row.keys[i], len(numbers)) for i in label.tolist()]
        lanes.append(
            Lane(
                name=row.name,
                kind=row.kind,
                start_ns=tuple((start - begin).tolist()),
                length_ns=tuple((end - start).tolist()),
                label=tuple(label_numbers),
                count=tuple(count.tolist()),
            )
        )
    labels = tuple(SliceLabel(name=name, class_=class_) for name, class_ in numbers)
    return tuple(lanes), labels, max((below[row.kind] for row in rows), default=0)


def _resolution(rows: Sequence[_Row], length: int, most: int) -> int:
    """The smallest length to merge below with which the rows have at most `most` slices together; 0 merges none."""
    below = 0
    while sum(int(_first_of_merged(row, below).sum()) for row in rows) > most:
        below = max(2 * below, length // FINEST, 1)
    return below


def _merged(row: _Row, below: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Start, end, label and count of the slices, neighbours that are shorter and nearer than `below` being one."""
    if not below or not len(row.start):
        return row.start, row.end, row.label, np.ones(len(row.start), np.int64)
    first = _first_of_merged(row, below)
    group = np.cumsum(first) - 1
    last = np.concatenate((first[1:], [True]))
    return row.start[first], row.end[last], _most(group, row), np.bincount(group)


def _first_of_merged(row: _Row, below: int) -> Mask:
    """Mask of the slices that are not merged with the one before them.

    Slices that begin in different cells of a grid of `below` stay apart, so that a long run of short slices keeps its
    shape.
    """
    if not below or not len(row.start):
        return np.ones(len(row.start), bool)
    small = row.end - row.start < below
    near = (row.start[1:] - row.end[:-1] < below) & (row.start[1:] // below == row.start[:-1] // below)
    return np.concatenate(([True], ~(small[1:] & small[:-1] & near)))


def _most(group: Ints, row: _Row) -> Ints:
    """For each group of slices, the label with the most time."""
    pairs, inverse = numbered(group * len(row.keys) + row.label)
    time = np.bincount(inverse, weights=row.end - row.start)
    order = np.lexsort((time, pairs // len(row.keys)))
    last = np.concatenate((np.diff(pairs[order] // len(row.keys)) > 0, [True]))
    return pairs[order[last]] % len(row.keys)
