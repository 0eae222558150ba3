"""The terminal report of `diagnose fleet`: losses by cause, changes, hosts, trends and jobs."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from diagnose.commands.fleet import views as view
from diagnose.commands.fleet.answer import Fleet, FleetHost
from diagnose.report.text.columns import TextColumn, heads, line
from diagnose.report.text.head import print_head
from diagnose.report.text.page import Page
from diagnose.report.views.plain import plain
from diagnose.report.views.words import counted

SHOWN = 6
_BAR = 16
_CAUSES = (
    TextColumn("lost", 10),
    TextColumn("of all", 9),
    TextColumn("jobs", 7, least=60),
    TextColumn("price", 10, least=80),
    TextColumn("first seen", 13, least=95),
)
_GROUPS = (
    TextColumn("jobs", 7, least=60),
    TextColumn("GPU-hours", 11),
    TextColumn("lost", 10),
    TextColumn("of its", 9),
    TextColumn("mostly", 28, least=80, is_word=True),
)
_JOBS = (
    TextColumn("GPUs", 7, least=60),
    TextColumn("GPU-hours", 11),
    TextColumn("lost", 9),
    TextColumn("mostly", 22, least=80, is_word=True),
    TextColumn("next", 34, least=100, is_word=True),
)


def render(fleet: Fleet, console: Console, details: bool = False) -> None:
    """Print `fleet`, all of its rows for `details`. Nothing is judged here."""
    print_head(console, view.head(fleet), "bold")
    page = Page(console)
    page.paragraph(view.whole_line(fleet), label="counted")
    if unknown := view.unknown_line(fleet):
        page.paragraph(unknown)
    _print_causes(page, fleet, details)
    _print_changes(page, fleet, details)
    _print_hosts(page, fleet, details)
    _print_trends(page, fleet)
    for kind, heading in view.HEADINGS.items():
        rows = view.groups(fleet, kind)
        cells = [(view.group_name(row), view.group_cells(row)) for row in rows]
        _print_table(page, heading.lower(), _GROUPS, cells, details)
    jobs = [(plain(job.name), view.job_cells(job)) for job in fleet.jobs]
    _print_table(page, "by job", _JOBS, jobs, details)
    _print_list(page, "not read", [f"{entry.file}: {entry.why}" for entry in fleet.unread], details, "yellow")
    _print_list(page, "notes", fleet.notes, True, "dim")
    page.paragraph(Text(view.read_line(fleet), "dim"), label="read")
    page.paragraph(Text(plain(fleet.source), "dim"), most=2)


def _print_causes(page: Page, fleet: Fleet, details: bool) -> None:
    rows = view.cause_rows(fleet)
    if not rows:
        return
    page.gap()
    columns = [column for column in _CAUSES if column.name != "price" or fleet.price is not None]
    page.line(Text(f"lost to{line(page, columns, '', heads(columns))[7:]}", "bold"))
    shown = rows if details else rows[:SHOWN]
    for row in shown:
        cells = {"lost": row.amount, "of all": f"{100 * row.share:.1f} %", "jobs": row.jobs, "price": row.money}
        page.line(Text(line(page, columns, row.name, cells | {"first seen": row.since})))
    if len(rows) > len(shown):
        page.line(Text(f"  +{len(rows) - len(shown)} more: --details", "dim"))


def _print_changes(page: Page, fleet: Fleet, details: bool) -> None:
    columns = (TextColumn("jobs", 7, least=60), TextColumn(view.unit(fleet), 20))
    rows = [(view.change_name(row), (f"{row.jobs:,}", view.change_amount(row))) for row in fleet.changes]
    _print_table(page, "changes", columns, rows, details)
    page.gap()
    page.paragraph(view.whole_plans_line(fleet), label="together")


def _print_hosts(page: Page, fleet: Fleet, details: bool) -> None:
    page.gap()
    page.paragraph(view.hosts_line(fleet), label="hosts")
    guilty = [row for row in fleet.hosts if row.answer == "yes"]
    for row in fleet.hosts if details else guilty[:SHOWN]:
        page.field("", _host(row))
    hidden = len(fleet.hosts) - (len(fleet.hosts) if details else len(guilty[:SHOWN]))
    if hidden:
        page.field("", Text(f"+{counted(hidden, 'host')} with a fault in some job: --details", "dim"))


def _host(row: FleetHost) -> Text:
    colour = {"yes": "bold red", "unknown": "yellow", "no": ""}[row.answer]
    return Text.assemble((f"{plain(row.host)}: ", colour), view.host_line(row))


def _print_trends(page: Page, fleet: Fleet) -> None:
    moved = view.trends(fleet)
    for i, row in enumerate(moved):
        page.paragraph(view.trend_line(row), label="" if i else "since when")
    if not moved:
        page.paragraph(view.no_trend_line(fleet), label="since when")


def _print_table(
    page: Page, label: str, columns: Sequence[TextColumn], rows: Sequence[tuple[str, Sequence[str]]], details: bool
) -> None:
    """Print rows of a name and cells; nothing if there are none."""
    if not rows:
        return
    page.gap()
    page.line(Text(f"{label}{line(page, columns, '', heads(columns))[len(label) :]}", "bold"))
    shown = rows if details else rows[:SHOWN]
    for name, cells in shown:
        named = {column.name: cell for column, cell in zip(columns, cells, strict=True)}
        page.line(Text(line(page, columns, name, named)))
    if len(rows) > len(shown):
        page.line(Text(f"  +{len(rows) - len(shown)} more: --details", "dim"))


def _print_list(page: Page, label: str, lines: Sequence[str], details: bool, style: str) -> None:
    shown = lines if details else lines[:SHOWN]
    if lines:
        page.gap()
    for i, text in enumerate(shown):
        page.paragraph(Text(plain(text), style), label="" if i else label, most=0 if details else 3)
    if len(lines) > len(shown):
        page.paragraph(Text(f"+{len(lines) - len(shown)} more: --details", "dim"))
