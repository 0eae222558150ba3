"""The longest kernels as printed, or without a GPU the longest operators: how often, how long, what of the step."""

from collections.abc import Sequence
from typing import TypeVar

from rich.text import Text

from diagnose.diagnosis import Diagnosis, KernelRow, OperatorRow
from diagnose.facts import duration, spoken
from diagnose.report.text.columns import TextColumn, heads, line
from diagnose.report.text.page import Extent, Page
from diagnose.report.views.breakdown import basis
from diagnose.report.views.plain import plain
from diagnose.report.views.words import counted, short_name, times

Row = TypeVar("Row", KernelRow, OperatorRow)
_FIGURES = (TextColumn("count", 9, least=64), TextColumn("time", 10), TextColumn("share", 9))
_OF_KERNELS = (
    *_FIGURES,
    TextColumn("bound", 14, least=64, is_word=True),
    TextColumn("operator", 30, least=100, is_word=True),
)
_OF_OPERATORS = (*_FIGURES, TextColumn("shapes", 34, least=100, is_word=True))


def print_kernels(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """Print as many of the longest kernels by name as requested, or that there are none."""
    rows = diagnosis.kernels
    if not extent.kernels or (not rows and diagnosis.host_operators):
        return
    if not rows:
        page.paragraph("no GPU kernels in the counted steps", label="kernels:")
        page.gap()
        return
    of = basis(diagnosis).name
    about = f"the longest on a typical rank, per step, in % of the {of}; those of several streams can run together"
    page.paragraph(about, label="kernels:")
    page.line(Text(line(page, _OF_KERNELS, "kernel", heads(_OF_KERNELS)), "dim"))
    for row in _named(rows)[: extent.kernels]:
        cells = _figures(row) | {"bound": row.bound, "operator": plain(row.operator)}
        page.line(Text(line(page, _OF_KERNELS, short_name(row.name), cells)))
    _rest(page, rows, extent.kernels)


def print_host_operators(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """Print the longest operators, as many as requested of kernels, for jobs with operators and without kernels."""
    rows, of = diagnosis.host_operators, basis(diagnosis).name
    if not extent.kernels or not rows:
        return
    about = f"no GPU kernels; the longest on a typical rank, per step, in % of the {of}, what each calls left out"
    page.paragraph(about, label="operators:")
    page.line(Text(line(page, _OF_OPERATORS, "operator", heads(_OF_OPERATORS)), "dim"))
    for row in _named(rows)[: extent.kernels]:
        page.line(Text(line(page, _OF_OPERATORS, plain(row.name), _figures(row) | {"shapes": plain(row.shapes)})))
    _rest(page, rows, extent.kernels)


def _figures(row: KernelRow | OperatorRow) -> dict[str, str]:
    return {"count": times(row.count), "time": duration(row.ns), "share": spoken(row.share, "share")}


def _named(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.name]


def _rest(page: Page, rows: Sequence[KernelRow | OperatorRow], most: int) -> None:
    """Print the number of names that are not listed, and their time."""
    hidden = [row for at, row in enumerate(rows) if at >= most or not row.name]
    if hidden:
        names, spent = sum(row.names for row in hidden), sum(row.ns for row in hidden)
        page.line(Text(f"  +{counted(names, 'name')} with {duration(spent)}", "dim"))
    page.gap()
