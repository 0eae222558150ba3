"""The waterfall as printed: one bar per class, its parts below it."""

from rich.cells import cell_len
from rich.text import Text

from diagnose.diagnosis import Diagnosis
from diagnose.facts import duration
from diagnose.report.text.page import Extent, Page, widest
from diagnose.report.views.breakdown import BreakdownRow, basis, outside_line, rows
from diagnose.report.views.words import causes_named

STYLE = {
    "data": "magenta",
    "host": "yellow",
    "communication": "cyan",
    "memory": "blue",
    "compute": "green",
    "unexplained": "red",
}


def print_breakdown(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """Time per step and share of MFU, each class and its parts; the denominator is in the heading."""
    page.gap()
    of = basis(diagnosis)
    if not diagnosis.waterfall:
        return
    average = f" ({of.average})" if of.average else ""
    page.paragraph(f"{of.name}, {duration(of.step_ns)}{average}", label="causes")
    listed = rows(diagnosis.waterfall, extent.details, causes_named(diagnosis))
    name_width = widest([row.name for row in listed], min(max(page.width - 34, 16), 50))
    bar_width = min(max(page.width - name_width - 27, 4), 40)
    for row in listed:
        numbers = f"{of.per_step(row.ns):>10}  {100 * row.share:5.1f} %"
        bar = page.bar(row.share, bar_width, STYLE[row.class_]) if row.class_ else Text()
        for i, name in enumerate(_name_lines(page, row, name_width)):
            page.line(Text.assemble("  ", name, " ", numbers, "  ", bar) if i == 0 else Text.assemble("  ", name))
    if outside := outside_line(diagnosis):
        page.line(Text(f"  {outside}", "dim"))


def _name_lines(page: Page, row: BreakdownRow, width: int) -> list[Text]:
    """The row's name in as many lines as it needs, those after the first indented below it."""
    left = len(row.name) - len(row.name.lstrip())
    lines = page.wrapped(row.name.strip(), width - left - 2, most=3) if cell_len(row.name) > width else [Text(row.name)]
    padded = [" " * (left + 2 * (i > 0)) * (len(lines) > 1) + line.plain.rstrip() for i, line in enumerate(lines)]
    return [Text(page.fitted(line, width), "bold" if row.class_ else "") for line in padded]
