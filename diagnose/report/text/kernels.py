"""The longest kernels as printed: how often, how long, what of the step, what bounds them and what launched them."""

from collections.abc import Callable

from rich.text import Text

from diagnose.diagnosis import Diagnosis, KernelRow
from diagnose.facts import duration, spoken
from diagnose.report.text.page import Extent, Page
from diagnose.report.views.ledger import basis
from diagnose.report.views.plain import plain
from diagnose.report.views.words import counted, short_name

_COLUMNS: tuple[tuple[str, int, int, Callable[[KernelRow], str]], ...] = (  # name, cells, from this width on
    ("count", 9, 64, lambda row: f"{row.count:,.{0 if row.count >= 100 or float(row.count).is_integer() else 1}f}"),
    ("time", 10, 0, lambda row: duration(row.ns)),
    ("share", 9, 0, lambda row: spoken(row.share, "share")),
    ("bound", 14, 64, lambda row: row.bound),
    ("operator", 30, 100, lambda row: plain(row.operator)),
)
_WORDS = ("bound", "operator")


def print_kernels(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """As many of the longest by name as were asked for; says so where there are none."""
    rows, most = diagnosis.kernels, extent.kernels
    if not most:
        return
    if not rows:
        page.paragraph("no GPU kernels in the counted steps", label="kernels:")
        page.gap()
        return
    of = basis(diagnosis).name
    about = f"the longest on a typical rank, per step, in % of the {of}; those of several streams can run together"
    page.paragraph(about, label="kernels:")
    named, rest = [row for row in rows if row.name], [row for row in rows if not row.name]
    page.line(Text(_line(page, "kernel", {name: name for name, *_ in _COLUMNS}), "dim"))
    for row in named[:most]:
        cells = {name: show(row) for name, _, _, show in _COLUMNS}
        page.line(Text(_line(page, short_name(row.name), cells)))
    hidden = len(named[most:]) + sum(row.names for row in rest)
    if hidden:
        spent = sum(row.ns for row in [*named[most:], *rest])
        page.line(Text(f"  +{counted(hidden, 'name')} with {duration(spent)}", "dim"))
    page.gap()


def _line(page: Page, name: str, cells: dict[str, str]) -> str:
    """The name cut to what the columns leave; numbers stand right in theirs, words left."""
    shown = [(cells[column], wide, column in _WORDS) for column, wide, least, _ in _COLUMNS if page.width >= least]
    room = page.width - 2 - sum(wide for _, wide, _ in shown)
    placed = [f"  {page.fitted(text, wide - 2)}" if word else f"{text:>{wide}}" for text, wide, word in shown]
    return f"  {page.fitted(name, room)}{''.join(placed)}"
