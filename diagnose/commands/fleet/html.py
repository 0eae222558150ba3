"""Many jobs as one self-contained page, in the style and under the policy of the report's."""

from pathlib import Path

from diagnose.commands.fleet import days as fleet_days
from diagnose.commands.fleet import views as view
from diagnose.commands.fleet.answer import Fleet
from diagnose.report.html.page import framed
from diagnose.report.views.plain import plain
from diagnose.report.views.summary import About

ROWS_SHOWN = 200  # of hosts and jobs; --json and --tables have all
_STYLES = ("report.css", "figures.css")
_TEMPLATE = Path(__file__).with_name("page.html")


def fleet_page(fleet: Fleet, about: About) -> str:
    """The whole page. Every text is escaped; nothing is measured or judged here."""
    title = view.headline(fleet)
    context = {
        "fleet": fleet,
        "view": view,
        "headline": title,
        "unit": view.unit(fleet),
        "causes": view.cause_rows(fleet),
        "work": view.cause_rows(fleet, "work"),
        "days": fleet_days.days_view(fleet),
        "width": fleet_days.WIDTH,
        "height": fleet_days.HEIGHT,
        "groups": [
            (kind, heading, rows) for kind, heading in view.HEADINGS.items() if (rows := view.groups(fleet, kind))
        ],
        "most": ROWS_SHOWN,
        "plain": plain,
    }
    return framed(_TEMPLATE, about, title, _STYLES, **context)
