"""A comparison as one self-contained page, in the style and under the policy of the report's."""

from diagnose.diagnosis import Comparison
from diagnose.report.html.page import embedded, environment, policy
from diagnose.report.views.comparison import comparison_view
from diagnose.report.views.summary import About

_STYLES = ("report.css",)


def comparison_page(comparison: Comparison, about: About) -> str:
    """The whole page. Every text is escaped; nothing is measured or judged here."""
    styles, view = embedded(_STYLES), comparison_view(comparison)
    context = {
        "view": view,
        "title": f"{view.headline} - diagnose",
        "styles": styles,
        "policy": policy(styles, []),
        "version": about.version,
        "command": about.command,
    }
    return environment().get_template("comparison.html").render(context)
