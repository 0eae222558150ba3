"""Read the events of a chunk into columns by compiled code, if it is installed and supports all of the chunk.

`diagnose.trace._scanner` makes no object for each event. It supports a part of what `events` reads, with the same
values: a chunk with anything else is left to `events` as a whole, so that no event is read twice.
"""

import os
from collections import deque
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from diagnose.arrays import Array, Floats, Ids, Ints
from diagnose.trace.events import UNREADABLE, Args, decode_args
from diagnose.trace.numbers import as_int
from diagnose.version import compiled

_VERSION = 3  # of the compiled code that this module was written for
_scanner = compiled("diagnose.trace._scanner", _VERSION)
# Events of a chunk: one with more is left to the reference reader. No power of two, since columns that stand so far
# apart push each other out of the caches of a core.
_ROOM = 65_608
_MOST_EXACT_DIGITS = 15  # of a double
_LONGEST_KNOWN = 64  # bytes of a text whose number is cached
_text = msgspec.json.Decoder(str).decode


Interners = tuple[dict[Any, int], dict[Any, int], dict[Any, int]]
"""The numbers of names, of categories and of (sizes, types, values) of arguments, by which columns count."""


class Scanned(NamedTuple):
    """The columns of a chunk's complete events, and what else it holds.

    `calls` are the rows of events that may be collectives, with their arguments; `memory` holds allocations: times,
    bytes allocated and reserved, devices and types of devices. The arrays are used again for the next chunk, or for the
    one behind it.
    """

    columns: Mapping[str, Array]
    calls: list[tuple[int, Args]]
    memory: Ints
    others: int
    not_finite: int
    left_out: Mapping[str, int]
    needs_digits: bool


class _Arrays:
    """The arrays to which a chunk's columns are written."""

    def __init__(self, kinds_left_out: int) -> None:
        assert _scanner is not None
        integers: Ints = np.empty((len(_scanner.INTEGERS), _ROOM), np.int64)
        rates: Floats = np.empty((len(_scanner.RATES), _ROOM), np.float64)
        ids: Ids = np.empty((len(_scanner.IDS), _ROOM), np.int32)
        self.calls: Ints = np.empty((3, _ROOM), np.int64)
        self.memory: Ints = np.empty((5, _ROOM), np.int64)
        self.left_out: Ints = np.empty(kinds_left_out, np.int64)
        self.all = (integers, rates, ids, self.calls, self.memory, self.left_out)
        named = ((_scanner.INTEGERS, integers), (_scanner.RATES, rates), (_scanner.IDS, ids))
        self.columns = {name: array[at] for names, array in named for at, name in enumerate(names)}


class Scanning:
    """Reads chunks into arrays that it owns.

    Args:
        interners: grow by what is new.
        left_out: categories, in lower case, whose events are counted and not kept.
        ahead: whether what was found in a chunk is used while the next is scanned.
    """

    def __init__(self, interners: Interners, left_out: Sequence[str] = (), ahead: bool = False) -> None:
        assert _scanner is not None
        self._interners = interners
        names, cats, shapes = interners
        self._kinds_left_out = tuple(left_out)
        self._scanner = _scanner.Scanner(
            lambda raw: names[_text(b'"%b"' % raw)],
            partial(_category, cats, self._kinds_left_out),
            lambda dims, types, concrete: shapes[dims, types, concrete],
            _integer,
            int.from_bytes(os.urandom(8)),
        )
        self._arrays = deque(_Arrays(len(self._kinds_left_out)) for _ in range(1 + ahead))

    def scanned(self, first: bytes, text: memoryview) -> Scanned | None:
        """Scan two texts of events with commas between them; None if the reference reader has to read them.

        The first may be empty: mostly it is the event that began in another block.
        """
        sizes = [len(each) for each in self._interners]
        self._arrays.rotate()
        arrays = self._arrays[0]
        arrays.left_out[:] = 0
        try:
            found = self._scanner.scan(first, text, *arrays.all)
            calls = [] if found is None else self._called(first, text, found[1])
        except UNREADABLE:
            found = None
        if found is None:
            self._take_back(sizes)
            return None
        rows, _, memory, others, not_finite, needs_digits = found
        columns = {name: column[:rows] for name, column in arrays.columns.items()}
        left_out = {name: n for name, n in zip(self._kinds_left_out, arrays.left_out.tolist(), strict=True) if n}
        return Scanned(columns, calls, arrays.memory[:, :memory], others, not_finite, left_out, needs_digits)

    def _called(self, first: bytes, text: memoryview, calls: int) -> list[tuple[int, Args]]:
        size, rows = len(first), self._arrays[0].calls[:, :calls].T.tolist()
        return [
            (row, decode_args(first[begin:end] if begin < size else text[begin - size : end - size]))
            for row, begin, end in rows
        ]

    def _take_back(self, sizes: list[int]) -> None:
        """Takes back the numbers that a chunk gave before it turned out to be odd."""
        for each, size in zip(self._interners, sizes, strict=True):
            if len(each) > size:
                self._scanner.forget()
            while len(each) > size:
                each.popitem()


def _category(cats: dict[str, int], left_out: tuple[str, ...], raw: bytes) -> int:
    """The number of a category; below 0 of one that is left out, -1 of the first."""
    text = _text(b'"%b"' % raw)
    lower = text.lower()
    return -1 - left_out.index(lower) if lower in left_out else cats[text]


def _integer(raw: bytes) -> int:
    """The number in a text that is in a number's place.

    Raises:
        ValueError: how `numbers` reads it depends on what else is in its column.
    """
    return _known_integer(raw) if len(raw) <= _LONGEST_KNOWN else _as_integer(raw)


def _as_integer(raw: bytes) -> int:
    text = raw.decode("ascii")
    if len(text) > _MOST_EXACT_DIGITS and not text[0].isalpha():
        raise ValueError(text)
    return as_int(text)


_known_integer = lru_cache(maxsize=1024)(_as_integer)


def scanning_of(interners: Interners, left_out: Sequence[str] = (), ahead: bool = False) -> Scanning | None:
    """A reader of chunks; None if it is not installed, or `DIAGNOSE_READER=reference` selects the other."""
    return Scanning(interners, left_out, ahead) if reader_in_use() == "compiled" else None


def reader_in_use() -> Literal["compiled", "reference"]:
    """The reader of chunks whose events are all usual."""
    asked = os.environ.get("DIAGNOSE_READER")
    return "reference" if _scanner is None or asked == "reference" else "compiled"
