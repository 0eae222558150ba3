"""A comparison as one self-contained page, in the style and under the policy of the report's."""

from pathlib import Path

from diagnose.commands.compare.answer import Comparison
from diagnose.commands.compare.views import comparison_view
from diagnose.commands.compare.waterfall import stacks, strips, waterfall
from diagnose.report.html.page import framed
from diagnose.report.views.summary import About

_STYLES = ("report.css", "figures.css")
_TEMPLATE = Path(__file__).with_name("page.html")


def comparison_page(comparison: Comparison, about: About) -> str:
    """The whole page. Every text is escaped; nothing is measured or judged here."""
    view = comparison_view(comparison)
    drawn = {"waterfall": waterfall(comparison), "stacks": stacks(comparison), "strips": strips(comparison)}
    return framed(_TEMPLATE, about, view.headline, _STYLES, view=view, **drawn)
