"""The longest kernels as printed: how often, how long, what of the step, what bounds them and what launched them."""

from rich.text import Text

from diagnose.diagnosis import Diagnosis, KernelRow
from diagnose.facts import duration, spoken
from diagnose.report.ledger import basis
from diagnose.report.page import LABEL, Page, plain
from diagnose.report.words import counted, short_name

_WIDE = 100  # cells from which the operator has a column
_OPERATOR = 28


def print_kernels(page: Page, diagnosis: Diagnosis, most: int) -> None:
    """The `most` longest by name; says so where there are none."""
    rows = diagnosis.kernels
    if not rows:
        page.paragraph("no GPU kernels in the counted steps", label="kernels:")
        page.gap()
        return
    of = basis(diagnosis).name
    about = f"the longest on a typical rank, per step, in % of the {of}; those of several streams can run together"
    page.paragraph(about, label="kernels:")
    named, rest = [row for row in rows if row.name], [row for row in rows if not row.name]
    operator = _OPERATOR if page.width >= _WIDE else 0
    width = max(page.width - 48 - operator, LABEL)
    head = f"  {page.fitted('kernel', width)}{'count':>9}{'time':>10}{'share':>9}  {'bound':<13}"
    page.line(Text(head + ("operator" if operator else ""), "dim"))
    for row in named[:most]:
        page.line(Text(_line(page, row, width, operator)))
    hidden = len(named[most:]) + sum(row.names for row in rest)
    if hidden:
        spent = sum(row.ns for row in [*named[most:], *rest])
        page.line(Text(f"  +{counted(hidden, 'name')} with {duration(spent)}", "dim"))
    page.gap()


def _line(page: Page, row: KernelRow, width: int, operator: int) -> str:
    digits = 0 if row.count >= 100 or float(row.count).is_integer() else 1
    numbers = f"{f'{row.count:,.{digits}f}':>9}{duration(row.ns):>10}{spoken(row.share, 'share'):>9}"
    launched = page.fitted(plain(row.operator), operator) if operator else ""
    return f"  {page.fitted(short_name(row.name), width)}{numbers}  {row.bound:<13}{launched}"
