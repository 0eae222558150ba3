"""Properties of the disk that holds a path: the kind of its file system, and the free space on it.

Only the standard library is needed.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
_IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")


def in_memory(folder: Path | str, mounts: Path = MOUNTS) -> bool:
    """Whether files in `folder` take the machine's memory; False if the system does not report it (only Linux does)."""
    return file_system(folder, mounts) in _IN_MEMORY


def file_system(folder: Path | str, mounts: Path = MOUNTS) -> str:
    """The kind of the file system that `folder` is, or would be, on, such as "ext4"; "" if it is unknown.

    Of the mounts above it the innermost counts, of several at one place the last, which hides the others (proc(5)).
    """
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return ""
    path, found, longest = os.path.realpath(folder), "", -1
    for line in lines:
        fields = line.split(" ")
        if "-" not in fields[5:-1]:
            continue
        place = _unescaped(fields[4])
        inside = place == "/" or path == place or path.startswith(place + "/")
        if inside and len(place) >= longest:
            found, longest = fields[fields.index("-", 5) + 1], len(place)
    return found


def free_bytes(folder: Path | str) -> int | None:
    """Bytes that this user may still write in `folder`, or where it would be made; None if it is unknown."""
    path = os.path.abspath(folder)
    while not os.path.isdir(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    try:
        status = os.statvfs(path)
    except (OSError, AttributeError):
        return None
    return status.f_bavail * status.f_frsize


def is_full(error: BaseException) -> bool:
    """Whether a file cannot be written since there is no space for it, or the user may take no more of it."""
    return isinstance(error, OSError) and error.errno in _FULL


def cut(why: str) -> OSError:
    """The error for a file that seems to be cut by a full disk: its writer reported none."""
    error = OSError(why)
    error.errno = errno.ENOSPC
    return error


def _unescaped(place: str) -> str:
    for written, meant in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        place = place.replace(written, meant)
    return place
