"""Blocks of JSON text from a file, whatever its name says about compression."""

import contextlib
import importlib
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from diagnose.errors import UserError

fast_zlib: ModuleType
try:
    from isal import isal_zlib as fast_zlib
except ImportError:
    fast_zlib = zlib


def _zstd() -> ModuleType | None:
    for name in ("compression.zstd", "backports.zstd"):  # of Python 3.14, and what brings it to older ones
        with contextlib.suppress(ImportError):
            return importlib.import_module(name)
    return None


zstd = _zstd()

BLOCK_BYTES = 1 << 20
BOMB_RATIO, BOMB_BYTES = 500, 1 << 30  # text from this size on must not be so many times what it was packed to
Watch = Callable[[int, int], None]  # called with the bytes of the file that are read, and those it has
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPED = b"\x2a\x4d\x18"  # behind a first byte of any value: a frame that holds no data
_BOM = b"\xef\xbb\xbf"


class Source:
    """One trace file as a stream of decompressed blocks.

    Args:
        path: the file.
        watch: told how far reading has come.
        begin: text before this offset is left out where the file need not be unpacked.

    Attributes:
        bytes_read: decompressed bytes delivered, or left out, so far.
        truncated: whether the compressed stream ends before its own end mark; final once `blocks` is exhausted.
    """

    def __init__(self, path: Path, watch: Watch | None = None, begin: int = 0) -> None:
        self.path = path
        self._watch = watch
        self.bytes_read = 0
        self._begin = begin
        self.truncated = False

    def blocks(self) -> Iterator[bytes]:
        """Decompressed blocks of at most BLOCK_BYTES each, without a byte order mark.

        Raises:
            UserError: the file cannot be opened or read.
        """
        start: bytes | None = b""
        try:
            for block in self._decompressed():
                start = None if self.bytes_read == self._begin > 0 else start
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
            size, done = self.path.stat().st_size, 0
            block = file.read(max(BLOCK_BYTES, len(_ZSTD_MAGIC)))
            packed = self._unpacker(block)
            if packed is None and self._begin:
                done = self.bytes_read = file.seek(min(self._begin, size))
                block = file.read(BLOCK_BYTES)
            while block:
                done += len(block)
                if packed is None:
                    yield block
                else:
                    for text in packed.feed(block):
                        self._refuse_bomb(done)
                        yield text
                if self._watch is not None:
                    self._watch(done, size)
                block = file.read(BLOCK_BYTES)
            self.truncated = packed is not None and not packed.complete

    def _refuse_bomb(self, packed_bytes: int) -> None:
        if self.bytes_read > max(BOMB_BYTES, BOMB_RATIO * packed_bytes):
            raise UserError(
                "the compressed data unpacks without end",
                where=self.path,
                why=f"{packed_bytes:,} bytes hold more than {self.bytes_read:,}; those of a trace hold 10 to 100 times",
                do="capture again",
            )

    def _unpacker(self, start: bytes) -> "_Unpacker | None":
        if start.startswith(_GZIP_MAGIC):
            return _Member()
        if not start.startswith(_ZSTD_MAGIC):
            return None
        if zstd is None:
            raise UserError(
                "cannot unpack zstd", where=self.path, do='pip install "diagnose-training[zstd]", or unpack it first'
            )
        return _Frames(zstd)


class _Unpacker(Protocol):
    @property
    def complete(self) -> bool: ...

    def feed(self, block: bytes) -> Iterator[bytes]: ...


class _Frames:
    """The zstd frames of one file, decompressed in bounded pieces. The window is at most 128 MiB."""

    def __init__(self, library: ModuleType) -> None:
        self._library = library
        self._stream: Any = library.ZstdDecompressor()
        self.broken = False

    @property
    def complete(self) -> bool:
        return bool(self._stream.eof) and not self.broken

    def feed(self, block: bytes) -> Iterator[bytes]:
        try:
            while not self.broken:
                if self._stream.eof:
                    if not block or not _begins_frame(block):
                        return
                    self._stream = self._library.ZstdDecompressor()
                out = self._stream.decompress(block, BLOCK_BYTES)
                if out:
                    yield out
                block = self._stream.unused_data if self._stream.eof else b""
                if self._stream.needs_input and not self._stream.eof:
                    return
        except (self._library.ZstdError, ValueError, EOFError):
            self.broken = True


def _begins_frame(block: bytes) -> bool:
    return _ZSTD_MAGIC.startswith(block[:4]) or _ZSTD_SKIPPED.startswith(block[1:4])


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
