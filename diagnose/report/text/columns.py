"""Rows of a name and figures, in as many columns as the console has room for."""

from collections.abc import Mapping, Sequence

import msgspec

from diagnose.report.text.page import Page


class TextColumn(msgspec.Struct, frozen=True):
    """A table column of `cells` width, shown if the console has `least` or more; words are aligned left, numbers
    right.
    """

    name: str
    cells: int
    least: int = 0
    is_word: bool = False


def heads(columns: Sequence[TextColumn]) -> dict[str, str]:
    """The cells of the line above the rows."""
    return {column.name: column.name for column in columns}


def line(page: Page, columns: Sequence[TextColumn], name: str, cells: Mapping[str, str]) -> str:
    """The name cut to what the columns leave, then the cell of each."""
    placed = [_placed(page, column, cells[column.name]) for column in columns if page.width >= column.least]
    return f"  {page.fitted(name, room(page, columns))}{''.join(placed)}"


def room(page: Page, columns: Sequence[TextColumn]) -> int:
    """The cells that the columns leave for the name."""
    return page.width - 2 - sum(column.cells for column in columns if page.width >= column.least)


def _placed(page: Page, column: TextColumn, text: str) -> str:
    return f"  {page.fitted(text, column.cells - 2)}" if column.is_word else f"{text:>{column.cells}}"
