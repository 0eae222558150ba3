"""The two streams: the report goes to stdout, what happens meanwhile to stderr."""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from diagnose.errors import printable


class _Terminal(Console):
    """A console that leaves a closed pipe to the caller."""

    def on_broken_pipe(self) -> None:
        """Rich exits here with 1, which means something else to us."""
        self.quiet = True
        raise BrokenPipeError


def terminal() -> Console:
    """Standard output, without markup, emoji or highlighting of what comes from a trace."""
    return _Terminal(markup=False, emoji=False, highlight=False)


@contextlib.contextmanager
def announced(path: Path) -> Iterator[None]:
    """A line on an interactive stderr while `path` is read; gone when it has been."""
    if not sys.stderr.isatty():
        yield
        return
    sys.stderr.write(f"reading {printable(str(path))} ...")
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
