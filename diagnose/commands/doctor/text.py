"""Print the checks as text."""

from rich.console import Console
from rich.text import Text

from diagnose.commands.doctor.answer import Checked
from diagnose.report.text.head import print_head
from diagnose.report.text.page import Page, joined
from diagnose.report.views.first_screen import ScreenLine
from diagnose.report.views.plain import plain

_STYLE = {"ok": "green", "warn": "bold yellow", "unknown": "dim"}
_ORDER = ("warn", "unknown", "ok")


def render(answer: Checked, console: Console) -> None:
    """The result, then a paragraph for each check, those that need attention first."""
    print_head(console, _head(answer), "bold yellow" if _named(answer, "warn") else "bold green")
    page = Page(console)
    for check in sorted(answer.checks, key=lambda check: _ORDER.index(check.state)):
        says = joined([Text(check.state.ljust(7), _STYLE[check.state]), plain(check.says)], gap="  ")
        page.paragraph(says, label=check.name)


def _head(answer: Checked) -> list[ScreenLine]:
    """The checks that need attention, and those that could not be made."""
    warned, unseen = _named(answer, "warn"), _named(answer, "unknown")
    result = f"captures lose something here: {', '.join(warned)}" if warned else "ready: captures lose nothing here"
    unseen_here = f", as far as could be looked ({', '.join(unseen)} could not)" if unseen else ""
    return [
        ScreenLine("result", plain(f"{result}{unseen_here}"), warns=bool(warned)),
        ScreenLine("next", "follow the lines marked warn" if warned else "diagnose run -- python train.py"),
    ]


def _named(answer: Checked, state: str) -> list[str]:
    return [check.name for check in answer.checks if check.state == state]
