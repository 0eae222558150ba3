"""Print the named ranges: those of the job in which the device idles; with `details` all of them."""

from rich.text import Text

from diagnose.diagnosis import Diagnosis
from diagnose.report.text.columns import TextColumn, heads, line
from diagnose.report.text.page import Extent, Page
from diagnose.report.views.breakdown import basis
from diagnose.report.views.ranges import OF, RangeView, idle_line, ranges_view
from diagnose.report.views.words import counted

SHOWN = 30
_ON_HOST = (TextColumn("count", 9, least=64), TextColumn("time", 10), TextColumn("share", 9))
_ON_DEVICE = (TextColumn("GPU work", 11, least=80), TextColumn("idle", 9, least=64))
_BY = TextColumn("opened by", 11, least=100, is_word=True)


def print_ranges(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """Print one line if the device idles in a range of the job; with `details` every range."""
    rows, says = ranges_view(diagnosis), idle_line(diagnosis)
    if rows and extent.details:
        _listed(page, diagnosis, rows)
    elif says:
        page.paragraph(says, label="ranges:")
        page.gap()


def _listed(page: Page, diagnosis: Diagnosis, rows: list[RangeView]) -> None:
    on_device = any(row.gpu for row in rows)
    idle = f", idle time in % of the {basis(diagnosis).name}" if on_device else ""
    page.paragraph(f"named ranges of a typical rank, per step, in % of {OF}{idle}; ranges can nest", label="ranges:")
    columns = (*_ON_HOST, *(_ON_DEVICE if on_device else ()), _BY)
    page.line(Text(line(page, columns, "range", heads(columns)), "dim"))
    for row in rows[:SHOWN]:
        of_host = {"count": row.count, "time": row.time, "share": row.share}
        cells = of_host | {"GPU work": row.gpu, "idle": row.idle, "opened by": row.row.by}
        page.line(Text(line(page, columns, row.name, cells)))
    if len(rows) > SHOWN:
        page.line(Text(f"  +{counted(len(rows) - SHOWN, 'range')}", "dim"))
    page.gap()
