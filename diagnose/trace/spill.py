"""Columns that grow in memory, or in files without a name that vanish with the process."""

import tempfile
from typing import IO, Any

import numpy as np

from diagnose.arrays import Array

_ROOM = 8  # an eighth of the column is kept free behind it, so that few pieces move it


class Growing:
    """A column that pieces are appended to.

    It grows where it stands: of pieces put together at the end, the memory would be taken twice.
    """

    def __init__(self, dtype: Any = np.int64) -> None:
        self._dtype = np.dtype(dtype)
        self._held, self._rows = np.empty(0, self._dtype), 0
        self._file: IO[bytes] | None = None

    @property
    def held_bytes(self) -> int:
        """What of it is in memory."""
        return self._rows * self._dtype.itemsize

    def append(self, piece: Array) -> None:
        """Adds `piece` at the end."""
        rows = self._rows + len(piece)
        if rows > len(self._held):
            self._held.resize(rows + rows // _ROOM, refcheck=False)
        self._held[self._rows : rows] = piece
        self._rows = rows

    def spill(self) -> None:
        """Writes what is held to disk.

        Raises:
            OSError: the disk is full.
        """
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="diagnose-")  # noqa: SIM115 - it lives as long as the column
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
    if not isinstance(column.base, np.memmap):
        return values
    growing = Growing(values.dtype)
    growing.append(values)
    growing.spill()
    return growing.finished()


def _mapped(file: IO[bytes], dtype: np.dtype[Any]) -> Array:
    """The content of `file` as a column that the system reads from disk as it is needed."""
    file.flush()
    if not file.tell():
        return np.empty(0, dtype)
    return np.asarray(np.memmap(file, dtype, "r"))
