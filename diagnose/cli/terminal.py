"""The two streams: the report goes to stdout, what happens meanwhile to stderr."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from diagnose.errors import printable
from diagnose.report.page import NARROWEST

LONGEST_NAME = 40  # cells; a line that wraps could not be erased


class _Terminal(Console):
    """A console that leaves a closed pipe to the caller."""

    def on_broken_pipe(self) -> None:
        """Rich exits here with 1, which means something else to us."""
        self.quiet = True
        raise BrokenPipeError


def terminal() -> Console:
    """Standard output, without markup, emoji or highlighting of what comes from a trace.

    A width too small for a page, such as that of COLUMNS=0, is raised: rich would print nothing.
    """
    console = _Terminal(markup=False, emoji=False, highlight=False)
    console.width = max(console.width, NARROWEST)
    return console


@contextlib.contextmanager
def announced(path: Path, wanted: bool = True) -> Iterator[None]:
    """A line on an interactive stderr while `path` is read; gone when it has been."""
    if not wanted or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield
        return
    name = printable(path.name or str(path))[:LONGEST_NAME]
    sys.stderr.write(f"reading {name} ...")
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
