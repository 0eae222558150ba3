"""Columns that grow in memory, or in files without a name that vanish with the process.

Most numbers of a trace are small, so a column of integers is as narrow as what it holds: a wide value widens it.
"""

import mmap
import tempfile
from typing import IO, Any
from weakref import WeakSet

import numpy as np

from diagnose.arrays import Array

_WIDTHS = tuple(np.dtype(width) for width in (np.int8, np.int16, np.int32, np.int64))
_LIMITS = tuple((-(1 << (8 * width.itemsize - 1)), (1 << (8 * width.itemsize - 1)) - 1, width) for width in _WIDTHS)
_BLOCK = 1 << 20  # entries that are widened at once on disk
_on_disk: WeakSet[mmap.mmap] = WeakSet()


def narrowest(values: Array) -> np.dtype[Any]:
    """The signed type with the fewest bytes that holds each of the integers."""
    least, most = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    return next(width for lowest, highest, width in _LIMITS if lowest <= least and most <= highest)


class Growing:
    """A column that pieces are appended to.

    It grows as they come: of pieces put together at the end, the memory of all columns would be taken twice.

    Args:
        dtype: of the column; None for integers, in the narrowest type that holds them.
    """

    def __init__(self, dtype: Any = np.int64) -> None:
        self._may_widen = dtype is None
        self._dtype = np.dtype(np.int8) if dtype is None else np.dtype(dtype)
        self._held, self._rows = np.empty(0, self._dtype), 0
        self._file: IO[bytes] | None = None

    @property
    def held_bytes(self) -> int:
        """Bytes of it in memory."""
        return self._rows * self._dtype.itemsize

    def append(self, piece: Array) -> None:
        """Adds `piece` at the end."""
        if self._may_widen and (dtype := narrowest(piece)).itemsize > self._dtype.itemsize:
            self._widen(dtype)
        rows = self._rows + len(piece)
        if rows > len(self._held):
            self._move(2 * rows)
        self._held[self._rows : rows] = piece
        self._rows = rows

    def _move(self, room: int) -> None:
        """Move to a new array with room for that many entries; the system only provides memory for what is written."""
        held, self._held = self._held, np.empty(room, self._dtype)
        self._held[: self._rows] = held[: self._rows]

    def _widen(self, dtype: np.dtype[Any]) -> None:
        self._held = self._held[: self._rows].astype(dtype)
        narrow, self._dtype = self._dtype, dtype
        self._may_widen = dtype.itemsize < np.dtype(np.int64).itemsize
        if self._file is not None:
            with self._file as file:
                column = _mapped(file, narrow)
                self._file = _unnamed()
                for begin in range(0, len(column), _BLOCK):
                    self._file.write(column[begin : begin + _BLOCK].astype(dtype).data)

    def spill(self) -> None:
        """Writes what is held to disk.

        Raises:
            OSError: the disk is full.
        """
        if self._file is None:
            self._file = _unnamed()
        self._file.write(self._held[: self._rows].data)
        self._rows = 0

    def finished(self) -> Array:
        """The whole column, which grows no more; read-only if it is on disk."""
        if self._file is None:
            self._held.resize(self._rows, refcheck=False)
            return self._held
        self.spill()
        with self._file as file:
            return _mapped(file, self._dtype)


def like(column: Array, values: Array) -> Array:
    """`values`, on disk if `column` is."""
    if not is_on_disk(column):
        return values
    growing = Growing(values.dtype)
    growing.append(values)
    growing.spill()
    return growing.finished()


def is_on_disk(column: Array) -> bool:
    """Whether it was spilled, and the system reads it as it is needed."""
    content = getattr(column.base, "obj", None)
    return isinstance(content, mmap.mmap) and content in _on_disk


def let_go() -> None:
    """Gives the memory in which the system holds columns on disk back to it: what is needed of them is read again."""
    for content in list(_on_disk):
        content.madvise(mmap.MADV_DONTNEED)


def _unnamed() -> IO[bytes]:
    """A file that lives as long as it is open."""
    return tempfile.TemporaryFile(prefix="diagnose-")


def _mapped(file: IO[bytes], dtype: np.dtype[Any]) -> Array:
    """The content of `file` as a column that the system reads from disk as it is needed."""
    file.flush()
    if not file.tell():
        return np.empty(0, dtype)
    content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    _on_disk.add(content)
    return np.frombuffer(content, dtype)
