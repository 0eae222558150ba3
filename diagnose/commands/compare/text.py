"""The terminal report of `diagnose compare`: the verdict, both runs, and tables of the differences."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from diagnose.commands.compare.answer import Comparison
from diagnose.commands.compare.views import ComparedRows, Row, comparison_view
from diagnose.report.text.head import print_head
from diagnose.report.text.page import Page

_STYLES = {"good": "bold green", "bad": "bold red", "doubtful": "bold yellow", "neutral": "bold"}
_LONGEST_CELL = 30
_READABLE_NAME = 28  # causes of one kind differ in their last words
_LEAST_NAME = 16


def render(comparison: Comparison, console: Console) -> None:
    """Print `comparison`. Nothing is measured or judged here."""
    page, view = Page(console), comparison_view(comparison)
    print_head(console, view.head, _STYLES[view.mood])
    if view.because:
        page.paragraph(Text(view.because, "dim"), label="sure")
    if view.promise:
        page.paragraph(view.promise, label="patch")
    for name, source in view.sources:
        page.paragraph(Text(source, "dim"), label=name)
    for table in view.tables:
        page.gap()
        _print_table(page, table)
    if view.notes:
        page.gap()
    for i, note in enumerate(view.notes):
        page.paragraph(Text(note, "dim"), label="" if i else "notes")


def _print_table(page: Page, table: ComparedRows) -> None:
    """Print as many columns as fit next to the names, those of the runs first; the JSON has the others."""
    columns = _fitting(page, table)
    names = _longest_name(table)
    each = (page.width - min(names, _LEAST_NAME)) // len(columns) - 2 if set(columns) <= _runs(table) else page.width
    widths = [min(_width(table, at), each) for at in columns]
    name = min(names, page.width - sum(width + 2 for width in widths))
    page.line(Text(table.title.lower(), "bold"))
    page.line(Text(_line(page, table.heads, columns, widths, name), "bold"))
    for row in table.rows:
        page.line(Text(_line(page, row, columns, widths, name)))
    if table.says:
        page.paragraph(Text(table.says, "dim"))


def _fitting(page: Page, table: ComparedRows) -> list[int]:
    """Positions of the columns after the name; a narrow page drops those left of A and B first, then those right."""
    columns = list(range(1, len(table.heads)))
    names = min(_longest_name(table), _READABLE_NAME)
    while sum(_width(table, at) + 2 for at in columns) > page.width - names:
        others = [at for at in columns if at not in _runs(table)]
        if not others or len(columns) == 1:
            break
        columns.remove(others[0] if others[0] == columns[0] else others[-1])
    return columns


def _runs(table: ComparedRows) -> set[int]:
    """The columns of the two runs, which no page drops."""
    return {at for at, head in enumerate(table.heads) if head in ("A", "B")}


def _longest_name(table: ComparedRows) -> int:
    return max(cell_len(cells[0]) for cells in (table.heads, *table.rows))


def _width(table: ComparedRows, at: int) -> int:
    return min(max(cell_len(cells[at]) for cells in (table.heads, *table.rows)), _LONGEST_CELL)


def _line(page: Page, cells: Row, columns: Sequence[int], widths: Sequence[int], name: int) -> str:
    """The name, then each cell, right-aligned in its column."""
    parts = [page.fitted(cells[0], name)]
    for at, width in zip(columns, widths, strict=True):
        cell = page.fitted(cells[at], width).rstrip()
        parts.append(" " * (width - cell_len(cell)) + cell)
    return "  ".join(parts)
