"""One trace file to columns: streamed in chunks that are cut at event boundaries, whatever the text layout.

A chunk is decoded in one typed pass. Only a chunk that fails is taken apart event by event and repaired.
"""

import gc
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from diagnose.errors import UserError
from diagnose.trace.builder import ColumnBuilder
from diagnose.trace.checks import without_impossible_events
from diagnose.trace.columns import Loss, Trace
from diagnose.trace.events import AnyEvent, ExactEvent, decode_events, decode_exact_event, decode_exact_events
from diagnose.trace.events import decode_loosely as loosely
from diagnose.trace.foreign import explain_foreign
from diagnose.trace.repair import repaired
from diagnose.trace.source import Source

BOUNDARY = re.compile(rb'\}\s*,\s*\{\s*"(?:ph|name|cat|pid|tid|ts|args|dur|id)"\s*:')
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_HEAD_LIMIT = 64 << 20
_LARGEST_EVENT = 64 << 20
_DOUBLE_IS_EXACT_BELOW_US = float(1 << 43)
_FALSE_BOUNDARIES_TRIED = 4


def read(path: Path) -> Trace:
    """Reads one `.json` or `.json.gz` trace.

    Raises:
        UserError: the file cannot be read, is empty, is no profiler trace, or holds no complete event.
    """
    collecting = gc.isenabled()
    gc.disable()  # millions of short-lived structs make the collector scan for nothing
    try:
        return _Reader(path).read()
    finally:
        if collecting:
            gc.enable()


@dataclass
class _Reader:
    path: Path
    loss: Loss = field(default_factory=Loss)
    builder: ColumnBuilder = field(default_factory=ColumnBuilder)
    exact: bool = False
    tail: bytes | None = None

    def read(self) -> Trace:
        source = Source(self.path)
        blocks = source.blocks()
        head, text = self._head(blocks)
        text = self._stream(text, blocks)
        self._finish(text, source)
        metadata = _head_metadata(head) | _tail_metadata(self.tail or b"")
        self._refuse_if_empty(metadata)
        trace = self.builder.trace(str(self.path), source.bytes_read, metadata, self.loss)
        return without_impossible_events(trace)

    def _head(self, blocks: Iterator[bytes]) -> tuple[bytes, bytes]:
        text = b""
        for block in blocks:
            text += block
            if text.lstrip()[:1] == b"[":
                return b"", text.lstrip()[1:]
            if match := _EVENTS_KEY.search(text):
                return text[: match.start()], text[match.end() :]
            if len(text) > _HEAD_LIMIT:
                break
        raise explain_foreign(self.path, text)

    def _stream(self, text: bytes, blocks: Iterator[bytes]) -> bytes:
        for block in blocks:
            text += block
            if self.tail is not None:
                self.tail, text = self.tail + text, b""
                continue
            cut = _last_boundary(text)
            if cut:
                self._decode(text[:cut])
                text = text[text.index(b"{", cut) :]
            elif len(text) > _LARGEST_EVENT:
                raise UserError(
                    "cannot read the trace",
                    where=self.path,
                    why="an event of more than 64 MiB: this is no profiler trace, or it is badly damaged",
                    do="capture again",
                )
        return text

    def _finish(self, text: bytes, source: Source) -> None:
        if self.tail is not None:
            self.tail += text
        else:
            cut = _last_boundary(text)
            if cut:
                self._decode(text[:cut])
                text = text[text.index(b"{", cut) :]
        if self.tail is None and text.strip():
            self._salvage(text, last=True)
        if self.tail is None or source.truncated:
            self.loss.truncated = True
            self.loss.count("truncated")

    def _decode(self, text: bytes) -> None:
        """Decodes whole events, the last without its comma, from `text`; sets `tail` when the array ends in it."""
        if self.tail is not None:
            self.tail += text
            return
        try:
            events = self._typed(b"[" + text + b"]")
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._salvage(text, last=False)
        else:
            self.builder.add(events)

    def _typed(self, text: bytes) -> list[Any]:
        if not self.exact:
            events = decode_events(text)
            if not any(abs(e.ts) > _DOUBLE_IS_EXACT_BELOW_US for e in events):
                return events
            self.exact = True
        return decode_exact_events(text)

    def _salvage(self, text: bytes, *, last: bool) -> None:
        pieces = _pieces(text)
        events: list[AnyEvent] = []
        at = 0
        while at < len(pieces):
            event, used = self._one(pieces, at, last=last)
            if event is not None:
                events.append(event)
            at += used
        self.builder.add_exact(events)

    def _one(self, pieces: list[bytes], at: int, *, last: bool) -> tuple[ExactEvent | None, int]:
        """The event at `pieces[at]` and how many pieces it took; None when it is lost or the array ends there."""
        for used in range(1, min(_FALSE_BOUNDARIES_TRIED, len(pieces) - at) + 1):
            if (event := _strict(b",".join(pieces[at : at + used]))) is not None:
                return event, used
        rest = len(pieces) - at
        ended = _at_array_end(b",".join(pieces[at:])) if b"]" in pieces[at] else None
        if ended is not None:
            body, self.tail = ended
            return (self._repair(body) if body.strip() else None), rest
        if last and rest == 1 and not pieces[at].rstrip().endswith(b"}"):
            self.loss.count("truncated", events=1, size=len(pieces[at]))
            return None, 1
        return self._repair(pieces[at]), 1

    def _repair(self, piece: bytes) -> ExactEvent | None:
        if (event := _strict(piece)) is not None:
            return event
        text, lossy = repaired(piece)
        event = loosely(text)
        if event is None:
            self.loss.count("unreadable-event", events=1, size=len(piece))
            return None
        for kind in lossy:
            self.loss.count(kind, size=1)
        return event

    def _refuse_if_empty(self, metadata: dict[str, Any]) -> None:
        if len(self.builder):
            return
        if self.loss.events:
            why = f"none of its {self.loss.events} events can be read"
        elif self.builder.seen:
            why = f"it holds {self.builder.seen} metadata records and no event with a duration"
        else:
            why = "its list of events is empty" + (" (the profiler wrote only metadata)" if metadata else "")
        raise UserError(
            "nothing to analyse in the trace", where=self.path, why=why, do="capture at least one complete step"
        )


def _last_boundary(text: bytes) -> int:
    """Offset just after the closing brace of the last event that another event follows, 0 when there is none."""
    end, window = len(text), 1 << 14
    while True:
        start = max(0, end - window)
        match = None
        for match in BOUNDARY.finditer(text, start):
            pass
        if match is not None:
            return match.start() + 1
        if start == 0:
            return 0
        window *= 4


def _pieces(text: bytes) -> list[bytes]:
    """The text cut at every event boundary; the commas between are gone."""
    cuts = [m.start() + 1 for m in BOUNDARY.finditer(text)]
    starts = [0] + [text.index(b"{", cut) for cut in cuts]
    return [text[a:b] for a, b in zip(starts, [*cuts, len(text)], strict=True)]


def _strict(piece: bytes) -> ExactEvent | None:
    try:
        return decode_exact_event(piece)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    try:
        text = piece.decode()
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    return loosely(text)


_DECODER = json.JSONDecoder(strict=False)
_AFTER_LAST = re.compile(r"\s*\]")
_TOLERANT_END = re.compile(r"\}\s*\]\s*(?:,\s*\"\w+\"\s*:|\}|$)")


def _at_array_end(piece: bytes) -> tuple[bytes, bytes] | None:
    """The last event's text and what follows the array's closing bracket, None when the array does not end here."""
    text = piece.decode("utf-8", "surrogateescape")
    stripped = text.lstrip()
    if stripped.startswith("]"):
        return b"", stripped[1:].encode("utf-8", "surrogateescape")
    try:
        _, end = _DECODER.raw_decode(stripped)
        match = _AFTER_LAST.match(stripped, end)
        cut = None if match is None else (end, match.end())
    except (ValueError, RecursionError):
        match = _TOLERANT_END.search(stripped)
        cut = None if match is None else (match.start() + 1, stripped.index("]", match.start()) + 1)
    if cut is None:
        return None
    return (stripped[: cut[0]].encode("utf-8", "surrogateescape"), stripped[cut[1] :].encode("utf-8", "surrogateescape"))


def _head_metadata(head: bytes) -> dict[str, Any]:
    return _metadata(head.strip().rstrip(b",") + b"}") if head.strip() else {}


def _tail_metadata(tail: bytes) -> dict[str, Any]:
    body = tail.strip().lstrip(b",")
    return _metadata(b"{" + body) if body.startswith((b'"', b" ", b"\n")) else {}


def _metadata(text: bytes) -> dict[str, Any]:
    for attempt in (text.decode("utf-8", "replace"), repaired(text)[0]):
        try:
            found = json.loads(attempt, strict=False)
        except (ValueError, RecursionError):
            continue
        return found if isinstance(found, dict) else {}
    return {}
