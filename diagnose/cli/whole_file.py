"""Files that are there whole or not at all."""

import contextlib
import fcntl
import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_PART = ".part"


@contextlib.contextmanager
def whole_file(to: Path) -> Iterator[BinaryIO]:
    """A file that takes the name `to` when all is written; one that is there already keeps its permissions.

    It has no name before where the file system allows that, so that a kill leaves nothing of it. Devices and pipes are
    written to as they are.
    """
    if to.exists() and not to.is_file():
        with to.open("wb") as device:
            yield device
        return
    target = to.resolve()
    _remove_abandoned(target)
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


def is_same_file(one: Path, other: Path) -> bool:
    """Whether both names lead to one file that is there."""
    try:
        return one.samefile(other)
    except OSError:
        return False


def _begun(target: Path) -> tuple[int, Path | None]:
    """A file beside the target, held by this process, and its name if it needs one."""
    part, handle = None, _unnamed(target.parent)
    if handle is None:
        handle, name = tempfile.mkstemp(prefix=_prefix(target), suffix=_PART, dir=target.parent)
        part = Path(name)
    with contextlib.suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return handle, part


def _unnamed(folder: Path) -> int | None:
    """A file without a name, None where the system or its file system knows none that gets one later."""
    try:
        handle = os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except (AttributeError, OSError):
        return None
    if os.path.exists(f"/proc/self/fd/{handle}"):
        return handle
    os.close(handle)
    return None


def _named(handle: int, target: Path) -> Path:
    """A name for the file that has none."""
    part = target.parent / f"{_prefix(target)}{secrets.token_hex(4)}{_PART}"
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:  # with a handle of the folder the link in /proc is followed, without one it is not
        os.link(f"/proc/self/fd/{handle}", part.name, dst_dir_fd=folder)
    finally:
        os.close(folder)
    return part


def _remove_abandoned(target: Path) -> None:
    """Parts of this file whose process was killed: nobody holds them."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(target.parent):
            if entry.name.startswith(_prefix(target)) and entry.name.endswith(_PART) and entry.is_file():
                with contextlib.suppress(OSError), open(entry.path, "rb") as part:
                    fcntl.flock(part, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(entry.path)


def _prefix(target: Path) -> str:
    return f".{target.name[:100]}."


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
