"""Chunks of whole events to columns, in one pass each, by compiled code or by the reference reader.

Compiled code may scan a chunk in another thread while this one reads the text of the next.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from diagnose.trace.boundaries import BOUNDARY, leading
from diagnose.trace.builder import ColumnBuilder
from diagnose.trace.events import UNREADABLE, decode_chunk
from diagnose.trace.scanning import Scanned

if TYPE_CHECKING:
    from concurrent.futures import Executor

NO_MORE = memoryview(b"")


class _Begun(NamedTuple):
    """A chunk, of `text` and `more`; `scanned` waits for what compiled code makes of it."""

    text: bytes
    more: memoryview
    scanned: Callable[[], Scanned | None]


class Chunks:
    """Adds chunks to `builder`, in the order in which they come.

    Args:
        builder: gets their columns.
        ahead: scans what is begun; without it that is done at once.
    """

    def __init__(self, builder: ColumnBuilder, ahead: "Executor | None" = None) -> None:
        self._builder, self._ahead = builder, ahead
        self._scanning = builder.scanning(ahead is not None)
        self._begun: _Begun | None = None
        self._held: Scanned | None = None
        self._exact = False

    def begin(self, text: bytes, more: memoryview = NO_MORE) -> None:
        """Begins a chunk, whose text is that of both; the one before it has to be settled."""
        self._begun = _Begun(text, more, self._scan(*_divided(text, more)))
        self.put_held()

    def settled(self) -> bytes:
        """Add the chunk that was begun, if any.

        Returns:
            Its text if not all of its events are sound, and then none of them is added; else nothing.
        """
        begun, self._begun = self._begun, None
        if begun is None:
            return b""
        self._held = begun.scanned()
        if self._held is None:
            return self._odd(b"".join((begun.text, begun.more)))
        self._exact = self._exact or self._held.needs_digits
        if self._ahead is None:
            self.put_held()
        return b""

    def put_held(self) -> None:
        """Adds the columns of the chunk settled last, if they are not yet; the next may be scanned meanwhile."""
        if self._held is not None:
            self._builder.put(self._held)
        self._held = None

    def _scan(self, first: bytes, rest: memoryview) -> Callable[[], Scanned | None]:
        if self._scanning is None:
            return lambda: None
        if self._ahead is not None:
            return self._ahead.submit(self._scanning.scanned, first, rest).result
        scanned = self._scanning.scanned(first, rest)
        return lambda: scanned

    def _odd(self, text: bytes) -> bytes:
        try:
            chunk, self._exact = decode_chunk(b"".join((b"[", text[leading(text) :], b"]")), exact=self._exact)
            self._builder.add(chunk)
        except UNREADABLE:
            return text
        return b""


def _divided(text: bytes, more: memoryview) -> tuple[bytes, memoryview]:
    """The events of both without the comma before them: the first that `text` begins, and those behind, not copied."""
    if not text:
        return b"", more[leading(more) :]
    if found := BOUNDARY.search(more):
        cut = found.start() + 1
        first, rest = b"".join((text, more[:cut])), more[cut:]
        return first[leading(first) :], rest[leading(rest) :]
    whole = memoryview(b"".join((text, more)))
    return b"", whole[leading(whole) :]
