"""The annotated trace as a file: the text of a sound trace with added events, else the loaded columns written anew."""

import gzip
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from diagnose.commands.annotate.merging import PER_RANK, events_of, shift_of
from diagnose.commands.annotate.tracks import PROCESS, Event, ProcessTrack, tracks
from diagnose.diagnosis import Diagnosis
from diagnose.metrics import Measured
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
