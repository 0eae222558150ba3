"""Blocks of JSON text from a file; compression is recognised by content, not by name."""

import contextlib
import errno
import importlib
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import BinaryIO

from diagnose.errors import UserError, to_install
from diagnose.trace.unpacking import GZIP_MAGIC, ZSTD_MAGIC, Frames, Members, Unpacker

fast_zlib: ModuleType
try:
    from isal import isal_zlib as fast_zlib
except ImportError:
    fast_zlib = zlib


def _zstd() -> ModuleType | None:
    for name in ("compression.zstd", "backports.zstd"):  # of Python 3.14, and its backport
        with contextlib.suppress(ImportError):
            return importlib.import_module(name)
    return None


zstd = _zstd()

BLOCK_BYTES = 1 << 20
BOMB_RATIO, BOMB_BYTES = 500, 1 << 30  # text from this size on must not be so many times what it was packed to
Watch = Callable[[int, int], None]  # called with the bytes of the file that are read, and those it has
_BOM = b"\xef\xbb\xbf"


class Source:
    """One trace file as a stream of decompressed blocks.

    Args:
        path: the file.
        watch: called with the progress of reading.
        begin: text before this offset is left out if the file need not be unpacked.

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
        """Decompressed blocks of about BLOCK_BYTES each, without a byte order mark.

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
        with opened(self.path) as file:
            size, done = os.fstat(file.fileno()).st_size, 0
            block = file.read(max(BLOCK_BYTES, len(ZSTD_MAGIC)))
            packed = self._unpacker(block)
            if packed is None and self._begin:
                done = self.bytes_read = file.seek(min(self._begin, size))
                block = file.read(BLOCK_BYTES)
            while block:
                done += len(block)
                if packed is None:
                    yield block
                else:
                    for text in _joined(packed.feed(block)):
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

    def _unpacker(self, start: bytes) -> Unpacker | None:
        if start.startswith(GZIP_MAGIC):
            return Members(fast_zlib)
        if not start.startswith(ZSTD_MAGIC):
            return None
        if zstd is None:
            raise UserError("cannot unpack zstd", where=self.path, do=f"{to_install('zstd')}, or unpack it first")
        return Frames(zstd)


def is_packed(path: Path) -> bool:
    """Whether the file holds compressed text; False if it cannot be read."""
    try:
        with opened(path) as file:
            return file.read(len(ZSTD_MAGIC)).startswith((GZIP_MAGIC, ZSTD_MAGIC))
    except (OSError, UserError):
        return False


def opened(path: Path, what: str = "the trace") -> BinaryIO:
    """The file, which is never waited for; `what` is in it.

    Raises:
        UserError: it is a pipe, a socket or a device.
        OSError: it cannot be opened.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    kind = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
    raise UserError(f"cannot read {what}", where=path, why=f"it is {kind}, not a file", do="copy it to a file")


def _joined(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces as blocks, of which only the last is shorter than BLOCK_BYTES."""
    held, size = list[bytes](), 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= BLOCK_BYTES:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)
