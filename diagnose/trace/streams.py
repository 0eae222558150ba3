"""Input that is not a file (standard input, a pipe, `<(zcat trace.json.gz)`), copied to one, since it is read
repeatedly.

Waiting ends: a pipe without a writer, or without data, is given up after a while.
"""

import errno
import os
import select
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from diagnose.errors import UserError
from diagnose.trace.unpacking import GZIP_MAGIC, ZSTD_MAGIC

STDIN = "-"
NOBODY_WRITES_S, NOTHING_COMES_S = 10.0, 50.0
LARGEST_BYTES = 64 << 30
_PIECE_BYTES = 1 << 20
_LEFT_FREE_BYTES = 1 << 30
_LOOK_EVERY_S = 0.05
_BOM = b"\xef\xbb\xbf"


def is_stream(path: str | Path) -> bool:
    """Whether `path` is `-`, a pipe, a socket or a device: something that is there once."""
    if str(path) == STDIN:
        return True
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def shown(path: str | Path) -> str:
    """The stream's name for the user."""
    return "standard input" if str(path) == STDIN else str(path)


def copy_stream(path: str | Path, to: Path) -> None:
    """Writes what comes from `path`, or from standard input, to a new file; no more than shows that it is no trace.

    Raises:
        UserError: it is a device or a terminal, nothing comes, or there is no room.
    """
    try:
        with _opened(path) as source, to.open("wb") as target:
            size = 0
            for piece in _pieces(source.fileno(), path):
                _refuse_if_full(path, to, size := size + len(piece))
                target.write(piece)
                if size == len(piece) and not _may_be_trace(piece):
                    return
    except OSError as error:
        do = f"use {STDIN} instead" if error.errno == errno.ENXIO else ""
        raise UserError("cannot read the trace", where=shown(path), why=error.strerror or str(error), do=do) from error


def _opened(path: str | Path) -> BinaryIO:
    is_stdin = str(path) == STDIN
    handle = os.dup(0) if is_stdin else os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    file = os.fdopen(handle, "rb", buffering=0)
    mode = os.fstat(handle).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or (is_stdin and stat.S_ISREG(mode)):
        return file
    kind = "a terminal" if os.isatty(handle) else "a folder" if stat.S_ISDIR(mode) else "a device"
    file.close()
    raise UserError(
        "cannot read the trace",
        where=shown(path),
        why=f"it is {kind}",
        do="name a file or a folder, or pipe a trace in",
    )


def _pieces(handle: int, path: str | Path) -> Iterator[bytes]:
    """Yield pieces until the last writer is gone; a pipe that never had a writer is recognised by a timeout."""
    begun, came = time.monotonic(), False
    while True:
        piece = _read(handle, path)
        if piece:
            came = True
            yield piece
        elif came:
            return
        elif str(path) == STDIN or time.monotonic() - begun > NOBODY_WRITES_S:
            raise _gave_up(path, "nothing came" if str(path) == STDIN else "nobody writes to this pipe")
        else:
            time.sleep(_LOOK_EVERY_S)


def _read(handle: int, path: str | Path) -> bytes:
    """The next piece, empty if there is no writer."""
    until = time.monotonic() + NOTHING_COMES_S
    ready = select.poll()
    ready.register(handle, select.POLLIN)
    if str(path) == STDIN and not ready.poll(NOTHING_COMES_S * 1000):  # its reads wait: others share its settings
        raise _gave_up(path, f"nothing came for {NOTHING_COMES_S:.0f} s")
    while True:
        try:
            return os.read(handle, _PIECE_BYTES)
        except BlockingIOError:
            left_s = until - time.monotonic()
            if left_s <= 0:
                raise _gave_up(path, f"nothing came for {NOTHING_COMES_S:.0f} s") from None
            ready.poll(left_s * 1000)


def _gave_up(path: str | Path, why: str) -> UserError:
    return UserError("cannot read the trace", where=shown(path), why=why, do="write the trace to a file, and name that")


def _refuse_if_full(path: str | Path, to: Path, size: int) -> None:
    if size > LARGEST_BYTES:
        raise _gave_up(path, f"more than {LARGEST_BYTES >> 30} GiB came")
    if shutil.disk_usage(to.parent).free < _LEFT_FREE_BYTES + _PIECE_BYTES:
        raise UserError("no room to copy the trace", where=to.parent, do="free some space, or set TMPDIR elsewhere")


def _may_be_trace(start: bytes) -> bool:
    text = start.removeprefix(_BOM).lstrip()
    return not text or text[:1] in b"{[" or start.startswith((GZIP_MAGIC, ZSTD_MAGIC)) or len(start) < len(ZSTD_MAGIC)
