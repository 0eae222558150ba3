"""A progress bar on stderr while traces are read."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from diagnose.errors import printable

if TYPE_CHECKING:
    from rich.progress import Progress

LONGEST_NAME = 40  # cells; a line that wraps could not be erased
PATIENCE_S = 1.0
_ERASED = "\r\x1b[K"


class ProgressBar:
    """Progress through the files, on stderr, from the first second on; it is erased at the end."""

    def __init__(self, begin: float) -> None:
        self._begin = begin
        self._progress: Progress | None = None
        self._cannot = False

    def __call__(self, path: Path, done: int, size: int) -> None:
        """Shows that `done` of the `size` bytes of the file at `path` are read."""
        if self._progress is None:
            if self._cannot or time.monotonic() - self._begin < PATIENCE_S:
                return
            self._progress = self._shown()
        if self._progress is None:
            return
        name = printable(path.name)[:LONGEST_NAME]
        self._progress.update(self._progress.task_ids[0], description=name, completed=done, total=size)

    def close(self) -> None:
        """Takes the bar away."""
        if self._progress is not None:
            self._progress.stop()

    def _shown(self) -> "Progress | None":
        """The bar, None if the system gives no thread to draw it in."""
        from rich.console import Console  # of a large trace alone
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        columns = (TextColumn("reading {task.description}", markup=False), BarColumn(), TaskProgressColumn())
        progress = Progress(*columns, console=Console(stderr=True, emoji=False, highlight=False), transient=True)
        progress.add_task("")
        sys.stderr.write(_ERASED)
        try:
            progress.start()
        except RuntimeError:
            self._cannot = True
            progress.stop()
            return None
        return progress


@contextlib.contextmanager
def announced(path: Path, wanted: bool = True) -> Iterator[ProgressBar | None]:
    """Show a line, and soon a bar, on an interactive stderr while `path` is read; erased afterwards."""
    if not wanted or sys.stderr is None or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield None
        return
    name = printable(path.name or str(path))[:LONGEST_NAME]
    sys.stderr.write(f"reading {name} ...")
    sys.stderr.flush()
    bar = ProgressBar(time.monotonic())
    try:
        yield bar
    finally:
        bar.close()
        sys.stderr.write(_ERASED)
        sys.stderr.flush()
