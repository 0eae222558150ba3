"""Files that exist whole or not at all."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from diagnose.trace.parts import held, part_of, remove_abandoned


@contextlib.contextmanager
def whole_file(to: Path) -> Iterator[BinaryIO]:
    """A file that takes the name `to` when all is written; one that is there already keeps its permissions.

    Until then it has no name, if the file system allows that, so that a kill leaves nothing behind. Devices and pipes
    are written to as they are.
    """
    if to.exists() and not to.is_file():
        with to.open("wb") as device:
            yield device
        return
    target = to.resolve()
    remove_abandoned(target.parent, target.name)
    handle, part = _begun(target)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fchmod(handle, target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
            if part is None:
                part = _named(handle, target)
            os.replace(part, target)
    except BaseException:
        if part is not None:
            part.unlink(missing_ok=True)
        raise


def write_whole(to: Path, content: bytes) -> None:
    """Write the file as a whole."""
    with whole_file(to) as file:
        file.write(content)


def is_same_file(one: Path, other: Path) -> bool:
    """Whether both names lead to the same existing file."""
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        return False


def _begun(target: Path) -> tuple[int, Path | None]:
    """A file in the target's folder, locked by this process, and its name if it needs one."""
    part, handle = None, _unnamed(target.parent)
    if handle is None:
        part = target.parent / part_of(target.name)
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    held(handle)
    return handle, part


def _unnamed(folder: Path) -> int | None:
    """A file without a name; None if the system or its file system cannot name one later."""
    try:
        handle = os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except (AttributeError, OSError):
        return None
    if os.path.exists(f"/proc/self/fd/{handle}"):
        return handle
    os.close(handle)
    return None


def _named(handle: int, target: Path) -> Path:
    """Link the nameless file to a temporary name, and return it."""
    part = target.parent / part_of(target.name)
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:  # with a handle of the folder the link in /proc is followed, without one it is not
        os.link(f"/proc/self/fd/{handle}", part.name, dst_dir_fd=folder)
    finally:
        os.close(folder)
    return part


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
