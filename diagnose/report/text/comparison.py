"""The terminal report of `diagnose compare`: the verdict, both runs, and tables of what differs."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from diagnose.diagnosis import Comparison
from diagnose.report.text.page import Page
from diagnose.report.views.comparison import Row, Rows, comparison_view

_STYLES = {"good": "bold green", "bad": "bold red", "doubtful": "bold yellow", "neutral": "bold"}
_LONGEST_CELL = 30
_LEAST_NAME = 16


def render(comparison: Comparison, console: Console) -> None:
    """Print `comparison`. Nothing is measured or judged here."""
    page, view = Page(console), comparison_view(comparison)
    page.paragraph(Text(view.headline, _STYLES[view.mood]), label="compare:")
    if view.because:
        page.paragraph(Text(view.because, "dim"))
    if view.promise:
        page.paragraph(view.promise, label="patch:")
    for name, source in view.sources:
        page.paragraph(Text(source, "dim"), label=f"{name}:")
    for table in view.tables:
        page.gap()
        _print_table(page, table)
    if view.notes:
        page.gap()
    for i, note in enumerate(view.notes):
        page.paragraph(Text(note, "dim"), label="" if i else "notes:")


def _print_table(page: Page, table: Rows) -> None:
    """As many columns as fit beside the names, those of numbers first; what is left out stands in the JSON."""
    columns = _fitting(page, table)
    widths = [_width(table, at) for at in columns]
    room = page.width - sum(width + 2 for width in widths)
    name = min(max(cell_len(cells[0]) for cells in (table.heads, *table.rows)), room)
    page.line(Text(table.title + ":", "bold"))
    page.line(Text(_line(page, table.heads, columns, widths, name), "bold"))
    for row in table.rows:
        page.line(Text(_line(page, row, columns, widths, name)))
    if table.says:
        page.paragraph(Text(table.says, "dim"))


def _fitting(page: Page, table: Rows) -> list[int]:
    """Positions of the columns behind the name; the leftmost of them goes first where the page is narrow."""
    columns = list(range(1, len(table.heads)))
    while len(columns) > 1 and sum(_width(table, at) + 2 for at in columns) > page.width - _LEAST_NAME:
        columns.pop(0 if table.heads[columns[0]] != "A" else len(columns) - 1)
    return columns


def _width(table: Rows, at: int) -> int:
    return min(max(cell_len(cells[at]) for cells in (table.heads, *table.rows)), _LONGEST_CELL)


def _line(page: Page, cells: Row, columns: Sequence[int], widths: Sequence[int], name: int) -> str:
    """The name, then each cell to the right of its column."""
    parts = [page.fitted(cells[0], name)]
    for at, width in zip(columns, widths, strict=True):
        cell = page.fitted(cells[at], width).rstrip()
        parts.append(" " * (width - cell_len(cell)) + cell)
    return "  ".join(parts)
