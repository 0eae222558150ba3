"""Temporary folders: removed with the process, or after a kill by the next process that needs one.

A folder is locked as long as its process lives. A killed process leaves one without a lock, which is removed.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from diagnose.trace.parts import held, part_of, remove_abandoned

_NAME = "scratch"


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """An empty folder of this block alone, among the temporary files.

    Raises:
        OSError: none can be made.
    """
    among = Path(tempfile.gettempdir())
    remove_abandoned(among, _NAME)
    folder, lock = _locked_folder(among)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _locked_folder(among: Path) -> tuple[Path, int]:
    """A folder and the handle that holds it; one that was taken for abandoned meanwhile is made again."""
    while True:
        folder = among / part_of(_NAME)
        folder.mkdir(0o700)
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            if held(lock) and folder.exists():
                return folder, lock
            os.close(lock)
