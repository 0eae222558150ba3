"""Divide one file's text among processes, in shares that begin and end between two events, and join their traces.

Where a share begins and ends depends on the text alone, so neighbours agree without communicating. Damage may look like
a boundary: a share that ends at one must decode in typed passes, or the file is read in one piece.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from diagnose.arrays import Array
from diagnose.trace.boundaries import BOUNDARY, BOUNDARY_BYTES
from diagnose.trace.builder import NARROWED
from diagnose.trace.columns import Collectives, Trace
from diagnose.trace.memory_series import joined_series
from diagnose.trace.nsight import is_database
from diagnose.trace.spill import narrowest

PACKED_RATIO = 12  # text bytes of a byte of a compressed trace, roughly
_GZIP_LENGTH = struct.Struct("<I")  # the last bytes of a gzip file: the length of its text modulo 2**32
_IDS = ("name", "cat", "shape")


class Unsplittable(Exception):
    """The file must be read in one piece."""


@dataclass(frozen=True)
class Share:
    """The events from the first boundary at or behind text offset `begin` to the first at or behind `end`.

    The first share begins with the file; without an `end`, or a boundary behind it, a share ends with the file.
    """

    begin: int = 0
    end: int | None = None


class ShareText:
    """The text of one share.

    Args:
        share: the share.
        blocks: the file's text, from offset `at` on, which is not after the share's begin.

    Attributes:
        begin: offset at which the share begins, None if it is empty.
        end: offset at which it ends, None if the file ends there.
    """

    def __init__(self, share: Share, blocks: Iterator[bytes], at: int) -> None:
        self.share = share
        self.begin: int | None = None
        self.end: int | None = None
        self._cut: int | None = None
        self._blocks, self._at, self._text = blocks, at, b""

    def blocks(self) -> Iterator[bytes]:
        """The share's text in pieces."""
        self.begin = 0
        if self.share.begin:
            for _ in self._until(self.share.begin):
                pass
            self.begin = self._cut
        if self.begin is None:
            return
        if self.share.end is not None and self.share.end < self.begin:  # one event spans the whole share
            self.end = self.begin
            return
        if self.share.end is None:
            yield self._text
            yield from self._blocks
            return
        yield from self._until(self.share.end)
        self.end = self._cut

    def _until(self, offset: int) -> Iterator[bytes]:
        """The text before the first boundary at or after `offset`; sets `_cut` to that boundary."""
        self._cut = None
        floor = offset
        while True:
            begin = self._at - len(self._text)
            if found := BOUNDARY.search(self._text, max(floor - begin, 0)):
                cut = found.start() + 1
                yield self._text[:cut]
                self._text, self._cut = self._text[cut:], begin + cut
                return
            floor = max(floor, self._at - BOUNDARY_BYTES)
            kept = max(len(self._text) - BOUNDARY_BYTES, 0)
            yield self._text[:kept]
            block = next(self._blocks, None)
            if block is None:
                yield self._text[kept:]
                self._text = b""
                return
            self._text, self._at = self._text[kept:] + block, self._at + len(block)


@dataclass(frozen=True)
class ReadShare:
    """The result of reading a share.

    Attributes:
        trace: its events, without metadata; `shapes` are the texts of arguments, which are not decoded yet.
        head: the text before the list of events; of the first share only.
        tail: the text after the list, None if it does not end here.
        begin: the offset in the text at which it begins, None if it is empty.
        end: the offset at which it ends, None if the file ends there.
        truncated: whether the compressed data ends before its own end mark.
        seen: number of events that are not complete events.
        not_finite: complete events without a time.
        without_phase: objects without a phase.
    """

    trace: Trace
    head: bytes
    tail: bytes | None
    begin: int | None
    end: int | None
    truncated: bool
    seen: int
    not_finite: int
    without_phase: int


def shares_of(path: Path, number: int) -> list[Share]:
    """The file in shares of about equal text. A wrong guess of a compressed file's text makes them less equal.

    Raises:
        Unsplittable: it is a database.
    """
    if is_database(path):
        raise Unsplittable
    size = text_bytes(path)
    cuts = [size * at // number for at in range(1, number)]
    return [Share(begin, end) for begin, end in zip([0, *cuts], [*cuts, None], strict=True)]


def text_bytes(path: Path) -> int:
    """The length of the file's text, a guess when it is compressed.

    Raises:
        OSError: the file cannot be read.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        magic = file.read(4)
        if magic.startswith(b"\x1f\x8b") and size > _GZIP_LENGTH.size:
            file.seek(-_GZIP_LENGTH.size, 2)
            length: int = _GZIP_LENGTH.unpack(file.read(_GZIP_LENGTH.size))[0]
            return length + max(round((PACKED_RATIO * size - length) / 2**32), 0) * 2**32
    return size * PACKED_RATIO if magic == b"\x28\xb5\x2f\xfd" else size


def joined(parts: Sequence[ReadShare]) -> ReadShare:
    """The parts of one file as one.

    Raises:
        Unsplittable: they do not add up to the file.
    """
    used = [part for part in parts if part.begin is not None]
    if [part.begin for part in used] + [None] != [0] + [part.end for part in used]:
        raise Unsplittable
    parts, last = used, used[-1]
    counts = {name: sum(getattr(p, name) for p in parts) for name in ("seen", "not_finite", "without_phase")}
    trace = parts[0].trace if len(parts) == 1 else _joined([part.trace for part in parts])
    return ReadShare(trace, parts[0].head, last.tail, 0, None, last.truncated, **counts)


def _joined(traces: Sequence[Trace]) -> Trace:
    tables: dict[str, Any] = {
        name: tuple(dict.fromkeys(e for t in traces for e in getattr(t, f"{name}s"))) for name in _IDS
    }
    columns: dict[str, Any] = {
        f.name: _concatenated(f.name, [_column(trace, f.name, tables) for trace in traces])
        for f in fields(Trace)
        if isinstance(getattr(traces[0], f.name), np.ndarray)
    }
    return Trace(
        path=traces[0].path,
        size=traces[-1].size,
        **columns,
        **{f"{name}s": table for name, table in tables.items()},
        collectives=_collectives(traces),
        memory=joined_series(trace.memory for trace in traces),
        metadata={},
        loss=traces[-1].loss,
    )


def _concatenated(name: str, parts: Sequence[Array]) -> Array:
    """The column of the whole, as narrow as if it were read in one piece."""
    column = np.concatenate(parts)
    return column.astype(narrowest(column), copy=False) if name in NARROWED else column


def _column(trace: Trace, name: str, tables: dict[str, tuple[Any, ...]]) -> Array:
    """The column, with ids that count in the joined table."""
    column: Array = getattr(trace, name)
    if name not in _IDS:
        return column
    numbers = {entry: number for number, entry in enumerate(tables[name])}
    new = np.array([*(numbers[entry] for entry in getattr(trace, f"{name}s")), -1], np.int64)
    return new.astype(narrowest(new))[column]  # -1, absent, is the last


def _collectives(traces: Sequence[Trace]) -> Collectives:
    of_all: dict[str, Any] = {}
    for f in fields(Collectives):
        columns = [getattr(trace.collectives, f.name) for trace in traces]
        is_array = isinstance(columns[0], np.ndarray)
        of_all[f.name] = np.concatenate(columns) if is_array else tuple(text for column in columns for text in column)
    rows_before = np.cumsum([0, *(len(trace) for trace in traces[:-1])])
    of_all["row"] = of_all["row"] + np.repeat(rows_before, [len(trace.collectives.row) for trace in traces])
    return Collectives(**of_all)
