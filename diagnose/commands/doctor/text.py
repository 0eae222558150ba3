"""Print the checks as text."""

from rich.console import Console
from rich.text import Text

from diagnose.commands.doctor.answer import Checked
from diagnose.report.text.page import Page, joined
from diagnose.report.views.plain import plain

_STYLE = {"ok": "green", "warn": "bold yellow", "unknown": "dim"}


def render(answer: Checked, console: Console) -> None:
    """A paragraph for each check."""
    page = Page(console)
    for check in answer.checks:
        says = joined([Text(check.state.ljust(7), _STYLE[check.state]), plain(check.says)], gap="  ")
        page.paragraph(says, label=f"{check.name}:")
