"""Many jobs as one self-contained page, in the style and under the policy of the report's."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from diagnose.attribution.causes import CAUSES
from diagnose.commands.fleet import views as view
from diagnose.commands.fleet.answer import Fleet, FleetHostDay
from diagnose.diagnosis.estimates import number
from diagnose.facts import spoken
from diagnose.report.html.page import framed
from diagnose.report.views.heat import level
from diagnose.report.views.plain import plain
from diagnose.report.views.summary import About
from diagnose.report.views.words import cause_name

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
        "days": days_view(fleet),
        "strip": host_strip(fleet),
        "width": WIDTH,
        "height": HEIGHT,
        "groups": [
            (kind, heading, rows) for kind, heading in view.HEADINGS.items() if (rows := view.groups(fleet, kind))
        ],
        "most": ROWS_SHOWN,
        "plain": plain,
    }
    return framed(_TEMPLATE, about, title, _STYLES, **context)


# Drawing of the losses of many jobs by day.

WIDTH, HEIGHT = 1000, 200
CAUSES_TOLD = 8
CLASSES = {
    "data": "data",
    "host": "host",
    "communication": "communication",
    "compute": "waiting, compute",
    "memory": "waiting, memory",
    "unexplained": "unexplained",
}


@dataclass(frozen=True)
class DayBar:
    """A bar of the drawing: `parts` are (class, x, y, width, height), stacked."""

    day: str
    says: str
    parts: list[tuple[str, float, float, float, float]]


@dataclass(frozen=True)
class Days:
    """The share that is lost by day; `legend` are (class, name) of the drawn classes, `top` is the share at the top.

    `rows` are the same in hours: the day, then what is lost to each of `causes`, those with most hours first.
    """

    bars: list[DayBar]
    causes: list[str]
    rows: list[list[str]]
    legend: list[tuple[str, str]]
    top: float
    first: str
    last: str


def days_view(fleet: Fleet) -> Days | None:
    """The drawing; None for less than two days."""
    days = sorted({row.day for row in fleet.days})
    if len(days) < 2:
        return None
    by_class = _by_class(fleet)
    top = max(sum(shares.values()) for shares in by_class.values())
    classes = [key for key in CLASSES if any(shares.get(key) for shares in by_class.values())]
    wide = WIDTH / len(days)
    bars = [_bar(day, by_class[day], classes, (i * wide, wide), top) for i, day in enumerate(days)]
    causes = _most_first(fleet)
    rows = [_hours(fleet, day, causes) for day in days]
    return Days(
        bars,
        [cause_name(cause) for cause in causes],
        rows,
        [(key, CLASSES[key]) for key in classes],
        top,
        days[0],
        days[-1],
    )


@dataclass(frozen=True)
class HostCell:
    """A day of a host: `level` is the step of the colour scale of the waiting for it, per GPU-hour that it ran."""

    x: int
    level: int
    hours: float
    says: str


@dataclass(frozen=True)
class HostStrip:
    """Hosts by name, each with its days, on an axis of so many `days` on which any of them ran.

    `rows` are the same in hours: host, day, what it ran, and what others waited for it.
    """

    hosts: list[tuple[str, str, list[HostCell]]]
    days: int
    first: str
    last: str
    rows: list[tuple[str, str, str, str]]
    more: int


HOSTS_DRAWN = 40


def host_strip(fleet: Fleet) -> HostStrip | None:
    """The drawing, the host that is waited for most first; None if no host is, or all is of one day."""
    days = sorted({row.day for row in fleet.host_days})
    if len(days) < 2:
        return None
    by_host: dict[str, list[FleetHostDay]] = defaultdict(list)
    for row in fleet.host_days:
        by_host[row.host].append(row)
    waited = {host: sum(row.waited_gpu_hours for row in own) for host, own in by_host.items()}
    shown = sorted(by_host, key=lambda host: -waited[host])[:HOSTS_DRAWN]
    unit = view.unit(fleet)
    place = {day: at for at, day in enumerate(days)}
    drawn = [(host, [_cell(row, place[row.day], unit) for row in by_host[host]]) for host in shown]
    told = [(row.host, row.day, row.gpu_hours, row.waited_gpu_hours) for host in shown for row in by_host[host]]
    return HostStrip(
        [(host, f"{host}: {_waited(waited[host], unit)}", cells) for host, cells in drawn],
        len(days),
        days[0],
        days[-1],
        [(host, day, number(ran), number(hours)) for host, day, ran, hours in told],
        len(by_host) - len(shown),
    )


def _cell(row: FleetHostDay, at: int, unit: str) -> HostCell:
    per_hour = row.waited_gpu_hours / row.gpu_hours if row.gpu_hours else 0.0
    says = f"{row.day}: ran {number(row.gpu_hours)}; {_waited(row.waited_gpu_hours, unit)}"
    return HostCell(at, level(per_hour), row.waited_gpu_hours, says)


def _waited(hours: float, unit: str) -> str:
    return f"others waited {number(hours)} {unit} for it"


def _most_first(fleet: Fleet) -> list[str]:
    hours: dict[str, float] = defaultdict(float)
    for row in fleet.days:
        hours[row.cause] += row.gpu_hours
    return sorted((cause for cause in hours if hours[cause]), key=lambda cause: -hours[cause])[:CAUSES_TOLD]


def _hours(fleet: Fleet, day: str, causes: Sequence[str]) -> list[str]:
    of = {row.cause: row.gpu_hours for row in fleet.days if row.day == day}
    return [day, *(number(of.get(cause, 0.0)) for cause in causes)]


def _by_class(fleet: Fleet) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for row in fleet.days:
        key = CAUSES[row.cause].class_ if row.cause in CAUSES else "unexplained"
        of_day = found.setdefault(row.day, {})
        of_day[key] = of_day.get(key, 0.0) + row.share
    return found


def _bar(day: str, shares: dict[str, float], classes: Sequence[str], at: tuple[float, float], top: float) -> DayBar:
    parts, below = [], float(HEIGHT)
    for key in classes:
        tall = HEIGHT * shares.get(key, 0.0) / top if top else 0.0
        below -= tall
        if tall:
            parts.append((key, round(at[0], 2), round(below, 2), round(0.92 * at[1], 2), round(tall, 2)))
    return DayBar(day, f"{day}: {spoken(sum(shares.values()), 'share')} lost", parts)
