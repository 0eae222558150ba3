"""A view as one self-contained page, which a browser loads again until the job has ended."""

from math import ceil
from pathlib import Path
from time import gmtime, strftime
from typing import Any

from diagnose.commands.series.text import sparkline
from diagnose.commands.watch.lines import BAD, head, rest
from diagnose.commands.watch.view import View
from diagnose.report.html.page import framed
from diagnose.report.views.first_screen import ScreenLine
from diagnose.report.views.plain import plain
from diagnose.report.views.summary import About

_STYLES = ("report.css",)
_TEMPLATE = Path(__file__).with_name("page.html")


def watch_page(view: View, run: str, about: About, every_s: float) -> str:
    """The whole page of the run called `run`. Every text is escaped; nothing is judged here."""
    state, *lines = head(view)
    over_run = sparkline(view.series, ascii_only=False).plain if view.series is not None and view.series.shape else ""
    context: dict[str, Any] = {
        "run": plain(run),
        "state": state.text,
        "mood": "critical" if view.state in BAD else "good",
        "as_of": strftime("%Y-%m-%d %H:%M:%S UTC", gmtime()),
        "lines": [line for line in (*lines, *_over_run(over_run), *rest(view)) if line.text],
    }
    if not view.is_over:
        context["reload_s"] = max(ceil(every_s), 1)
    return framed(_TEMPLATE, about, f"{view.state}: {plain(run)}", _STYLES, **context)


def _over_run(sparkline: str) -> tuple[ScreenLine, ScreenLine]:
    """The shape, in letters as small as a narrow page needs, and what its lowest and highest mark stand for."""
    shape, _, between = sparkline.partition(" ")
    return ScreenLine("", shape), ScreenLine("range", between.strip())
