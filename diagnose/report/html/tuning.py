"""The ladder of `diagnose tune` as one self-contained page, in the style and under the policy of the report's."""

from pathlib import Path

from diagnose.diagnosis.tuning import Tuning
from diagnose.report.html.page import framed
from diagnose.report.views.summary import About
from diagnose.report.views.tuning import tuning_view

_STYLES = ("report.css", "figures.css")
_TEMPLATE = Path(__file__).parent / "templates" / "tuning.html"


def tuning_page(tuning: Tuning, about: About) -> str:
    """The whole page. Every text is escaped; nothing is measured or judged here."""
    view = tuning_view(tuning)
    return framed(_TEMPLATE, about, view.result, _STYLES, view=view)
