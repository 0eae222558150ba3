"""The table of trials of `diagnose tune` as one self-contained page, in the style and under the policy of the
report's.
"""

from pathlib import Path

from diagnose.commands.tune.answer import Tuning
from diagnose.commands.tune.ladder import ladder_of
from diagnose.commands.tune.views import tuning_view
from diagnose.report.html.page import framed
from diagnose.report.views.summary import About

_STYLES = ("report.css", "figures.css")
_TEMPLATE = Path(__file__).with_name("page.html")


def tuning_page(tuning: Tuning, about: About) -> str:
    """The whole page. Every text is escaped; nothing is measured or judged here."""
    view = tuning_view(tuning)
    return framed(_TEMPLATE, about, view.result, _STYLES, view=view, ladder=ladder_of(tuning))
