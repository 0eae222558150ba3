"""Damaged text event by event: what is sound is read, what can be repaired is, and the rest is booked as lost."""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from pathlib import Path

from diagnose.errors import UserError
from diagnose.trace.boundaries import BOUNDARY, LIST_END, NEXT_EVENT, PROBABLE_END, event_size, leading, past_junk
from diagnose.trace.builder import ColumnBuilder
from diagnose.trace.columns import ReadingLoss
from diagnose.trace.events import ExactEvent, decode_event, decode_loosely, exact_chunk
from diagnose.trace.metadata import book_garbage
from diagnose.trace.repair import repaired

_LARGEST_REPAIR = 1 << 20
_MOST_LOST = 50_000


def hopeless(path: Path, why: str) -> UserError:
    """The error for a file of which too little can be read."""
    return UserError("cannot read the trace", where=path, why=why, do="capture again")


@dataclass
class Salvage:
    """Adds what can be read of damaged text to `builder`; `tail` is what follows the list of events, once met."""

    path: Path
    builder: ColumnBuilder
    loss: ReadingLoss
    tail: bytearray | None = None

    def events(self, text: bytes, *, last: bool) -> bytes:
        """Add the events of the text; return the rest, which depends on the text that follows.

        Args:
            text: some events, the comma before each included.
            last: whether no text follows.

        Raises:
            UserError: more is lost than can be read.
        """
        ends = [*(m.start() + 1 for m in BOUNDARY.finditer(text)), len(text)]
        events: list[ExactEvent] = []
        start = past_junk(text, 0)
        book_garbage(text[:start], self.loss)
        at = bisect_right(ends, start)
        while start < len(text):
            event, end = decode_event(text[start + leading(text[start : ends[at]]) : ends[at]]), ends[at]
            if event is None:
                size = event_size(text, start, ends, at, last=last)
                if size is None:
                    break
                event, end = self._damaged(text, start, end, size)
            if event is not None:
                events.append(event)
            start = past_junk(text, end)
            if not (NEXT_EVENT.match(text, start) or (start > end and LIST_END.match(text, start))):
                start = ends[bisect_left(ends, end)]
            book_garbage(text[end:start], self.loss)
            at = bisect_right(ends, start)
        self.builder.add(exact_chunk(events))
        return text[start:]

    def _damaged(self, text: bytes, start: int, end: int, size: int) -> tuple[ExactEvent | None, int]:
        """The event at `start`, None if it is lost, and its end; sets `tail` if the list ends.

        `end` is the next boundary; it is inside the event if the event's `size` says so, which is 0 if unknown.
        """
        begin = start + leading(text[start:end])
        event = self._repaired(text[begin : begin + size])[0] if size else None
        if self._ends_list(text, begin + size):
            return event, len(text)
        if size or begin == len(text):
            return event, begin + size
        event, rest = self._repaired(text[begin:end])
        if event is not None:
            if not rest.strip():
                return event, end
            behind = rest.encode("utf-8", "replace")
            if LIST_END.match(behind + b",{" if end < len(text) else behind):  # all boundaries are before an event
                self._ends_list(behind + text[end:], 0)
                return event, len(text)
        return None, self._lost(text, start, end)

    def _repaired(self, piece: bytes) -> tuple[ExactEvent | None, str]:
        """The event that `piece` begins with, and the repaired text after it."""
        if (event := decode_event(piece)) is not None:
            return event, ""
        if len(piece) > _LARGEST_REPAIR:
            return None, ""
        text, lossy = repaired(piece)
        event, rest = decode_loosely(text)
        for kind in lossy if event is not None else ():
            self.loss.count(kind, size=1)
        return event, rest

    def _ends_list(self, text: bytes, at: int) -> bool:
        match = LIST_END.match(text, at)
        if match is not None:
            self.tail = bytearray(text[match.end() :])
        return match is not None

    def _lost(self, text: bytes, start: int, end: int) -> int:
        """Count the piece as lost; return where to go on."""
        final = end == len(text)
        match = PROBABLE_END.search(text, start) if final else None
        if match is not None:
            self._ends_list(text, match.start(1))
            end = match.start(1)
        cut_off = final and match is None and not text.rstrip().endswith(b"}")
        self.loss.count("truncated" if cut_off else "unreadable-event", events=1, size=end - start)
        if self.loss.events > max(_MOST_LOST, len(self.builder)):
            raise hopeless(self.path, f"{self.loss.events} events are unreadable, more than can be read")
        return len(text) if final else end
