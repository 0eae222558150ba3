"""What the tests of the terminal report print with."""

import io
from collections.abc import Callable

from rich.console import Console

from diagnose.diagnosis import Diagnosis
from diagnose.report.text import render


def printed(diagnosis: Diagnosis, width: int = 80, encoding: str = "utf-8", **how: bool) -> str:
    """The report as a pipe receives it."""
    return piped(lambda console: render(diagnosis, console, **how), width, encoding)


def piped(show: Callable[[Console], None], width: int, encoding: str = "utf-8") -> str:
    """What `show` writes to a console that is a pipe."""
    raw = io.BytesIO()
    console = Console(file=io.TextIOWrapper(raw, encoding=encoding, errors="strict"), width=width)
    show(console)
    console.file.flush()
    return raw.getvalue().decode(encoding)
