"""Blocks of JSON text from a file, whatever its name says about compression."""

import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from diagnose.errors import UserError

fast_zlib: ModuleType
try:
    from isal import isal_zlib as fast_zlib
except ImportError:
    fast_zlib = zlib

BLOCK_BYTES = 1 << 19
_GZIP_MAGIC = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"


class Source:
    """One trace file as a stream of decompressed blocks.

    Attributes:
        bytes_read: decompressed bytes delivered so far.
        truncated: whether the compressed stream ends before its own end mark; final once `blocks` is exhausted.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bytes_read = 0
        self.truncated = False

    def blocks(self) -> Iterator[bytes]:
        """Decompressed blocks of at most BLOCK_BYTES each, without a byte order mark.

        Raises:
            UserError: the file cannot be opened or read.
        """
        start: bytes | None = b""
        try:
            for block in self._decompressed():
                self.bytes_read += len(block)
                if start is None:
                    yield block
                elif len(start := start + block) >= len(_BOM):
                    yield start.removeprefix(_BOM)
                    start = None
        except OSError as error:
            raise UserError("cannot read the trace", where=self.path, why=error.strerror or str(error)) from error
        if start:
            yield start

    def _decompressed(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            block = file.read(max(BLOCK_BYTES, len(_GZIP_MAGIC)))
            member = _Member() if block.startswith(_GZIP_MAGIC) else None
            while block:
                yield from member.feed(block) if member else (block,)
                block = file.read(BLOCK_BYTES)
            self.truncated = member is not None and not member.complete


class _Member:
    """The gzip members of one file, decompressed in bounded pieces so that a bomb cannot fill the memory."""

    def __init__(self) -> None:
        self._stream: Any = fast_zlib.decompressobj(wbits=31)
        self.broken = False

    @property
    def complete(self) -> bool:
        return bool(self._stream.eof) and not self.broken

    def feed(self, block: bytes) -> Iterator[bytes]:
        try:
            while block and not self.broken:
                if self._stream.eof:
                    if not _GZIP_MAGIC.startswith(block[: len(_GZIP_MAGIC)]):  # padding after the last member
                        return
                    self._stream = fast_zlib.decompressobj(wbits=31)
                out = self._stream.decompress(block, BLOCK_BYTES)
                block = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail
                if out:
                    yield out
        except (zlib.error, ValueError, getattr(fast_zlib, "error", zlib.error)):
            self.broken = True  # what was decompressed so far is sound; the rest counts as cut off
