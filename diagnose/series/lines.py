"""The lines of a log, packed or not, of bounded length."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from diagnose.errors import UserError
from diagnose.trace.source import Source, opened

LONGEST_LINE = 1 << 20
_PACKED = (".gz", ".zst")


def lines_of(path: Path, cut_to: int | None = None) -> Iterator[str]:
    """The lines that are not empty; longer ones are cut to `cut_to`, without it none may be longer than a megabyte."""
    most = cut_to or LONGEST_LINE
    try:
        with io.TextIOWrapper(_unpacked(path), encoding="utf-8", errors="replace", newline=None) as file:
            while line := file.readline(most):
                if len(line) >= most and not line.endswith("\n"):
                    if cut_to is None:
                        raise UserError("no log of steps", where=path, why="a line is longer than a megabyte")
                    while (rest := file.readline(LONGEST_LINE)) and not rest.endswith("\n"):
                        pass
                if line.strip() and "\x00" not in line:
                    yield line
    except OSError as error:
        raise UserError("cannot read the log", where=path, why=error.strerror or str(error)) from error


def _unpacked(path: Path) -> Any:
    if path.suffix.lower() not in _PACKED:
        return opened(path, "the log")
    return io.BufferedReader(_Blocks(Source(path).blocks()))


class _Blocks(io.RawIOBase):
    """Blocks of bytes as a file."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks, self._held = blocks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._held:
            self._held = memoryview(next(self._blocks, b""))
        taken = min(len(buffer), len(self._held))
        buffer[:taken] = self._held[:taken]
        self._held = self._held[taken:]
        return taken
