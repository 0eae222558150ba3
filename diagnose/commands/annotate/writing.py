"""The annotated trace as a file: the text of a sound trace with added events, else the loaded columns written anew."""

import gzip
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np

from diagnose.arrays import ABSENT
from diagnose.commands.annotate.tracks import PROCESS, Event, ProcessTrack, micros, tracks
from diagnose.diagnosis import Diagnosis
from diagnose.diagnosis.postmortem import Clock
from diagnose.metrics import Measured
from diagnose.timeline import NOT_LAUNCHED, Timeline
from diagnose.trace.source import Source

_LIST = re.compile(rb'"traceEvents"\s*:\s*\[|\A\s*\[')
_SEARCHED, _OVERLAP = 64 << 20, 1 << 10
_AT_ONCE = 10_000
_LEVEL = 5


def write_annotated(diagnosis: Diagnosis, measured: Sequence[Measured], to: BinaryIO, compressed: bool) -> None:
    """Write the traces of the measured ranks with a track of the diagnosis.

    One trace keeps its text to the letter, with the new events in front of its own; one of which something was lost,
    one whose device is set on the host's clock, several, and an export of Nsight Systems are written from what was read
    of them.

    Args:
        diagnosis: the findings of the track.
        measured: the ranks, whose files are still where they were read.
        to: where to write.
        compressed: whether to write gzip.

    Raises:
        UserError: a trace cannot be read any more.
    """
    only = measured[0]
    as_read = not only.timeline.trace.loss and only.timeline.clock_shift_ns is None
    kept = len(measured) == 1 and as_read and not only.timeline.trace.of_nsight
    pieces = _with_text(diagnosis, only) if kept else _anew(diagnosis, measured)
    if not compressed:
        to.writelines(pieces)
        return
    with gzip.GzipFile(fileobj=to, mode="wb", compresslevel=_LEVEL, mtime=0) as file:
        for piece in pieces:
            file.write(piece)


def _with_text(diagnosis: Diagnosis, measured: Measured) -> Iterator[bytes]:
    """The text with the events in front of its own; written anew if its list of events cannot be found."""
    blocks, start, searched = Source(Path(measured.timeline.trace.path)).blocks(), b"", 0
    for block in blocks:
        start += block
        events = _LIST.search(start, max(searched - _OVERLAP, 0))
        if events and (rest := start[events.end() :].lstrip()):
            yield start[: events.end()]
            yield from _joined(tracks(diagnosis, measured, ProcessTrack()))
            yield rest if rest.startswith(b"]") else b",\n" + rest
            yield from blocks
            return
        searched = events.start() if events else len(start)
        if searched > _SEARCHED:
            break
    yield from _anew(diagnosis, [measured])


def _anew(diagnosis: Diagnosis, measured: Sequence[Measured]) -> Iterator[bytes]:
    """Text of a new trace of all ranks on the clock of the first."""
    first = measured[0].timeline.trace
    about = {"schemaVersion": 1, "displayTimeUnit": "ms", "baseTimeNanoseconds": first.base_ns}
    about |= {key: first.metadata[key] for key in ("deviceProperties",) if key in first.metadata}
    yield msgspec.json.encode(about)[:-1] + b', "traceEvents": [\n'
    yield from _joined(event for rank in measured for event in _ranks_events(diagnosis, rank, measured[0]))
    yield b"\n]}\n"


def _ranks_events(diagnosis: Diagnosis, rank: Measured, first: Measured) -> Iterator[Event]:
    clocks = diagnosis.postmortem.clocks if diagnosis.postmortem else ()
    shift = shift_of(rank.timeline, first.timeline, {clock.rank: clock for clock in clocks})
    yield from tracks(diagnosis, rank, ProcessTrack(rank.timeline.rank * PER_RANK + PROCESS, shift))
    yield from events_of(rank.timeline, shift)


def _joined(events: Iterator[Event]) -> Iterator[bytes]:
    """The events as JSON with commas between them, many at a time."""
    encode, parts, first = msgspec.json.encode, [], True
    for event in events:
        parts.append(encode(event))
        if len(parts) == _AT_ONCE:
            yield (b"" if first else b",\n") + b",\n".join(parts)
            parts, first = [], False
    if parts:
        yield (b"" if first else b",\n") + b",\n".join(parts)


# Traces of several ranks, or a damaged one, written anew from the loaded columns.
#
# Processes are numbered as tools that merge traces do, `rank * 100_000_000 + pid`. Arguments that the loader does not
# keep are not in the new file; arrows from launches to kernels are drawn again from their correlation.

PER_RANK = 100_000_000


def shift_of(timeline: Timeline, first: Timeline, clocks: dict[int, Clock]) -> int:
    """Nanoseconds to add to a rank's times for the clock of the first rank: as aligned, else by the wall clocks."""
    clock = clocks.get(timeline.rank)
    aligned = clock.offset_ns if clock is not None and clock.offset_ns is not None else 0
    return timeline.trace.base_ns - first.trace.base_ns + aligned


def events_of(timeline: Timeline, shift: int) -> Iterator[Event]:
    """The rank's events with shifted times, named processes, and launches linked to the activities they launched."""
    trace, base = timeline.trace, timeline.rank * PER_RANK
    columns = (trace.ts, trace.dur, trace.name, trace.cat, trace.pid, trace.tid)
    for row, values in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        ts, dur, name, cat, pid, tid = values
        event = {"ph": "X", "cat": trace.cats[cat], "name": trace.names[name], "pid": base + max(pid, 0), "tid": tid}
        yield event | {"ts": micros(ts + shift), "dur": micros(dur), "args": _args(timeline, row)}
    for pid in np.unique(trace.pid[trace.pid >= 0]).tolist():
        name = f"rank {timeline.rank}, process {pid}"
        yield {"ph": "M", "name": "process_name", "pid": base + pid, "tid": 0, "ts": 0, "args": {"name": name}}
    yield from _arrows(timeline, shift, base)


def _args(timeline: Timeline, row: int) -> dict[str, Any]:
    trace = timeline.trace
    numbers = (
        ("stream", trace.stream), ("device", trace.device), ("correlation", trace.correlation),
        ("External id", trace.external_id), ("bytes", trace.bytes),
    )  # fmt: skip
    return {key: int(column[row]) for key, column in numbers if column[row] != ABSENT}


def _arrows(timeline: Timeline, shift: int, base: int) -> Iterator[Event]:
    gpu, trace = timeline.gpu, timeline.trace
    for row, launch in zip(gpu.row.tolist(), gpu.launch.tolist(), strict=True):
        if launch == NOT_LAUNCHED:
            continue
        for phase, at in (("s", launch), ("f", row)):
            where = {"pid": base + max(int(trace.pid[at]), 0), "tid": int(trace.tid[at])}
            tie = {"cat": "ac2g", "name": "ac2g", "id": base + row, "ts": micros(int(trace.ts[at]) + shift)}
            yield {"ph": phase, **tie, **where} | ({"bp": "e"} if phase == "f" else {})
