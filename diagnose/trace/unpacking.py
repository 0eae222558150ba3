"""gzip members and zstd frames to text, piece by piece, as far as they are sound."""

import zlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Protocol

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPED = b"\x2a\x4d\x18"  # behind a first byte of any value: a frame that holds no data
_STEP_BYTES = 1 << 14  # of gzip in and text out: at most so much is lost before damage


class Unpacker(Protocol):
    """Decompresses one file, given to it block by block."""

    @property
    def complete(self) -> bool:
        """Whether the data ended at its own end mark, undamaged."""

    def feed(self, block: bytes) -> Iterator[bytes]:
        """The text that the next block of the file adds, in bounded pieces."""


class Frames:
    """The zstd frames of one file.

    The library gives back nothing of a call in which it meets damage. So that what lies before is not lost, no call
    gets more than one block of a frame, whose text is at most 128 KiB; the window is at most 128 MiB.
    """

    def __init__(self, library: ModuleType) -> None:
        self._library = library
        self._stream: Any = library.ZstdDecompressor()
        self._cuts = _Cuts()
        self._broken = False

    @property
    def complete(self) -> bool:
        """Whether the compressed stream is complete."""
        return bool(self._stream.eof) and not self._broken

    def feed(self, block: bytes) -> Iterator[bytes]:
        """Yield the decompressed text of a block."""
        if self._broken:
            return
        for piece in self._cuts.pieces(block):
            try:
                if self._stream.eof:
                    self._stream = self._library.ZstdDecompressor()
                out = self._stream.decompress(piece)
            except (self._library.ZstdError, ValueError, EOFError):
                self._broken = True
                return
            if out:
                yield out


class _Cuts:
    """The ends of the parts of zstd frames: header, blocks, checksum (RFC 8878, section 3.1)."""

    def __init__(self) -> None:
        self._head, self._left, self._ended = b"", 0, False
        self._has_checksum = False
        self._size: Callable[[bytes], int | None] = self._of_frame

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """The data in pieces of which none goes beyond a part, without what follows the last frame."""
        at = 0
        while at < len(data) and not self._ended:
            if self._left:
                piece = data[at : at + self._left]
                self._left -= len(piece)
                at += len(piece)
                yield piece
                continue
            self._head += data[at : at + 1]
            at += 1
            size = self._size(self._head)
            if size is not None and not self._ended:
                self._head, self._left, head = b"", size, self._head
                yield head

    def _of_frame(self, head: bytes) -> int | None:
        """Bytes that follow the head of a frame, None while it is not whole."""
        if not (ZSTD_MAGIC.startswith(head[:4]) or _ZSTD_SKIPPED.startswith(head[1:4])):
            self._ended = True
        if len(head) < 5:
            return None
        if not head.startswith(ZSTD_MAGIC):
            return int.from_bytes(head[4:8], "little") if len(head) == 8 else None
        flags = head[4]
        single = flags >> 5 & 1
        content = (single, 2, 4, 8)[flags >> 6]
        if len(head) < 5 + (1 - single) + (0, 1, 2, 4)[flags & 3] + content:
            return None
        self._has_checksum, self._size = bool(flags >> 2 & 1), self._of_block
        return 0

    def _of_block(self, head: bytes) -> int | None:
        if len(head) < 3:
            return None
        number = int.from_bytes(head, "little")
        if number & 1:
            self._size = self._of_checksum if self._has_checksum else self._of_frame
        return 1 if number >> 1 & 3 == 1 else number >> 3

    def _of_checksum(self, head: bytes) -> int | None:
        if len(head) < 4:
            return None
        self._size = self._of_frame
        return 0


class Members:
    """The gzip members of one file, in small steps: the library gives back nothing of one in which it meets damage."""

    def __init__(self, library: ModuleType) -> None:
        self._library = library
        self._stream: Any = library.decompressobj(wbits=31)
        self._broken = False

    @property
    def complete(self) -> bool:
        """Whether the compressed stream is complete."""
        return bool(self._stream.eof) and not self._broken

    def feed(self, block: bytes) -> Iterator[bytes]:
        """Yield the decompressed text of a block."""
        for at in range(0, len(block), _STEP_BYTES):
            yield from self._step(block[at : at + _STEP_BYTES])

    def _step(self, block: bytes) -> Iterator[bytes]:
        try:
            out = b""
            while (block or len(out) >= _STEP_BYTES) and not self._broken:  # text may be left behind a full step
                if self._stream.eof:
                    if not block or not GZIP_MAGIC.startswith(block[: len(GZIP_MAGIC)]):
                        return
                    self._stream = self._library.decompressobj(wbits=31)
                out = self._stream.decompress(block, _STEP_BYTES)
                block = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail
                if out:
                    yield out
        except (zlib.error, ValueError, getattr(self._library, "error", zlib.error)):
            self._broken = True  # the text so far is sound; the rest counts as cut off
