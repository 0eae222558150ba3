"""The roofline as printed: a row for each family of kernels, with what it reaches and what bounds it."""

from collections.abc import Callable, Sequence

from rich.text import Text

from diagnose.diagnosis import Diagnosis, RooflineEntry
from diagnose.report.text.page import Extent, Page, widest
from diagnose.report.views.plain import plain
from diagnose.report.views.words import cause_name

_COLUMNS: tuple[tuple[str, int, Callable[[RooflineEntry], str]], ...] = (
    ("ms/step", 9, lambda e: f"{e.ns / 1e6:,.2f}"),
    ("above", 8, lambda e: "-" if e.above_roof_ns is None else f"{e.above_roof_ns / 1e6:,.2f}"),
    ("TFLOP/s", 9, lambda e: _figure(e.tflops, 1)),
    ("GB/s", 8, lambda e: _figure(e.gbs, 0)),
    ("FLOP/B", 8, lambda e: _figure(e.intensity if e.flops else None, 1)),
)
_LONGEST = 60
_OPERATORS_SHOWN = 12
_LEGEND = "; above: ms more than FLOPs at the peak or the least bytes at full bandwidth take"
_NARROW = 80  # cells below which rates per byte are left out


def print_roofline(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """The families by time, then the longest operators; "above" is time above the roof. Only a part of the details."""
    if not (extent.details and diagnosis.roofline):
        return
    known = any(entry.bytes is not None for entry in diagnosis.roofline)
    about = f"of the first rank, per step{_LEGEND}" if known else "operators have no shapes"
    page.paragraph(f"kernels {about}", label="roofline:")
    _table(page, diagnosis.roofline, _family)
    page.gap()
    if diagnosis.operators:
        page.paragraph("those whose kernels take longest, by argument sizes", label="operators:")
        _table(page, diagnosis.operators[:_OPERATORS_SHOWN], lambda e: plain(f"{e.family} {e.precision}"))
        page.gap()


def _table(page: Page, entries: Sequence[RooflineEntry], name: Callable[[RooflineEntry], str]) -> None:
    columns = _COLUMNS if page.width >= _NARROW else _COLUMNS[:3]
    room = page.width - sum(wide for _, wide, _ in columns) - 16
    width = min(max(widest([name(e) for e in entries], _LONGEST), 12), max(room, 12))
    page.line(Text("  " + " " * width + "".join(f"{head:>{wide}}" for head, wide, _ in columns) + "  bound", "dim"))
    for entry in entries:
        cells = "".join(f"{show(entry):>{wide}}" for _, wide, show in columns)
        page.line(Text.assemble("  ", page.fitted(name(entry), width), cells, f"  {entry.bound}"))
        if entry.note:
            page.hanging(Text(plain(entry.note), "dim"), left=4)


def _family(entry: RooflineEntry) -> str:
    parts = (cause_name(entry.family), entry.precision, entry.direction)
    return plain(" ".join(part for part in parts if part))


def _figure(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"
