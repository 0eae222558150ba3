"""Columns that grow in memory, or in files without a name that vanish with the process."""

import tempfile
from typing import IO, Any

import numpy as np

from diagnose.arrays import Array


class Growing:
    """A column that pieces are appended to; `held_bytes` of it are in memory."""

    def __init__(self, dtype: Any = np.int64) -> None:
        self.held_bytes = 0
        self._dtype = np.dtype(dtype)
        self._pieces: list[Array] = []
        self._file: IO[bytes] | None = None

    def append(self, piece: Array) -> None:
        """Adds `piece` at the end."""
        self._pieces.append(piece)
        self.held_bytes += piece.nbytes

    def spill(self) -> None:
        """Writes what is held to disk.

        Raises:
            OSError: the disk is full.
        """
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="diagnose-")  # noqa: SIM115 - it lives as long as the column
        for piece in self._pieces:
            self._file.write(np.ascontiguousarray(piece).data)
        self._pieces, self.held_bytes = [], 0

    def finished(self) -> Array:
        """The whole column, read-only if it is on disk."""
        if self._file is None:
            return np.concatenate(self._pieces, dtype=self._dtype) if self._pieces else np.empty(0, self._dtype)
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
