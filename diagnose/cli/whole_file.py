"""Files that are there whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(to: Path) -> Iterator[BinaryIO]:
    """A file that takes the name `to` when all is written; one that is there already keeps its permissions.

    Devices and pipes are written to as they are.
    """
    if to.exists() and not to.is_file():
        with to.open("wb") as device:
            yield device
        return
    target = to.resolve()
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.chmod(name, target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def is_same_file(one: Path, other: Path) -> bool:
    """Whether both names lead to one file that is there."""
    try:
        return one.samefile(other)
    except OSError:
        return False


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
