"""The consoles that reports are laid out for."""

from typing import Any

from rich.console import Console

from diagnose.report.text.page import NARROWEST


class _Terminal(Console):
    """A console that leaves a closed pipe to the caller."""

    def on_broken_pipe(self) -> None:
        """Raise the error to the caller: rich would exit with 1, which has another meaning here."""
        self.quiet = True
        raise BrokenPipeError


def terminal(**where: Any) -> Console:
    """Standard output, without markup, emoji or highlighting of what comes from a trace.

    A width too small for a page, such as that of COLUMNS=0, is raised: rich would print nothing.

    Args:
        where: options of rich's Console for another place than standard output.
    """
    console = _Terminal(markup=False, emoji=False, highlight=False, **where)
    console.width = max(console.width, NARROWEST)
    return console
