"""Folders for what is needed for a while: gone with the process, and after a kill with the next one that needs such.

A folder is locked as long as its process lives. What was killed has left one that nobody holds, which is removed.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "diagnose-scratch-"


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """An empty folder of this block alone, among the temporary files.

    Raises:
        OSError: none can be made.
    """
    _remove_abandoned(Path(tempfile.gettempdir()))
    folder, lock = _locked_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _locked_folder() -> tuple[Path, int]:
    """A folder and the handle that holds it; one that was taken for abandoned meanwhile is made again."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            if _is_taken(lock) and folder.exists():
                return folder, lock
            os.close(lock)


def _is_taken(lock: int) -> bool:
    """Whether the folder is held from now on; where the file system knows no locks nobody removes it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _remove_abandoned(among: Path) -> None:
    """Folders of this user whose process was killed."""
    with contextlib.suppress(OSError):
        for folder in among.glob(f"{_PREFIX}*"):
            with contextlib.suppress(OSError):
                _remove(folder)


def _remove(folder: Path) -> None:
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(lock).st_uid == os.getuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
