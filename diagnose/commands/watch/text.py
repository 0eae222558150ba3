"""A view on a terminal."""

from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from diagnose.commands.series.text import sparkline
from diagnose.commands.watch.lines import head, rest
from diagnose.commands.watch.view import View
from diagnose.report.text.first_screen import LABEL
from diagnose.report.text.page import Page
from diagnose.report.views.first_screen import ScreenLine

MOST = 3  # lines of one label
_STYLES = {"running": "bold green", "ended": "bold green", "waiting": "bold"}


def render(view: View, console: Console) -> None:
    """Print the view."""
    page = Page(console, LABEL)
    for line in head(view):
        _print(page, line, _STYLES.get(view.state, "bold red") if line.label == "state" else "")
    if view.series is not None and view.series.shape:  # the last of it, where it is wider than the page
        shape = view.series.shape[-(page.width - LABEL) :]
        page.paragraph(sparkline(replace(view.series, shape=shape), page.ascii_only), label="")
    for line in rest(view):
        _print(page, line)


def _print(page: Page, line: ScreenLine, style: str = "") -> None:
    if line.text:
        style = style or ("yellow" if line.warns else "bold" if line.is_code else "")
        page.paragraph(Text(line.text, style), label=line.label, most=MOST)
