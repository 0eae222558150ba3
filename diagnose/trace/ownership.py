"""Ownership of files: those that others may have written are not trusted, and those of others are not touched."""

import contextlib
import os
import stat as modes
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

MARK = b"diagnose packed trace\r\n"  # the beginning of every cached file, even a half-written one
_OTHERS_WRITE = modes.S_IWGRP | modes.S_IWOTH


def is_users_alone(stat: os.stat_result) -> bool:
    """Whether it belongs to the user of this process, and no other user may write to it."""
    return stat.st_uid == os.geteuid() and not stat.st_mode & _OTHERS_WRITE


@contextlib.contextmanager
def own_file(path: Path) -> Iterator[BinaryIO]:
    """The file, opened without waiting for anything and without following a link.

    Raises:
        OSError: it is no regular file of the user's, or others may write to it.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        stat = os.fstat(handle)
        if not modes.S_ISREG(stat.st_mode) or not is_users_alone(stat):
            raise OSError("not a file of the user's alone")
        yield file
