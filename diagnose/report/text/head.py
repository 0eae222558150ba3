"""The first lines of a command's report, in the columns of the first screen of a diagnosis."""

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from diagnose.report.text.first_screen import LABEL
from diagnose.report.text.page import Page
from diagnose.report.views.first_screen import ScreenLine

MOST = 5  # lines of one label


def print_head(console: Console, lines: Iterable[ScreenLine], verdict: str = "bold") -> None:
    """Print the lines that have a text, the first in the style `verdict`; then an empty line."""
    page = Page(console, LABEL)
    for i, line in enumerate(line for line in lines if line.text):
        style = verdict if i == 0 else "yellow" if line.warns else "bold" if line.is_code else ""
        page.paragraph(Text(line.text, style), label=line.label, most=MOST)
    page.gap()
