"""The terminal report: the first screen, then causes, ranks, later changes, what to leave alone, what to record.

The memory estimate as printed.

The longest kernels as printed, or without GPU activity the longest operators: how often, how long, what of the step.

Print the named ranges: those of the job in which the device idles; with `details` all of them.

The roofline as printed: a row for each family of kernels, with what it reaches and what bounds it.

Print the user's functions by Python time, with their share of the samples or of the recorded calls.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from diagnose.diagnosis import Diagnosis, KernelRow, OperatorRow, RooflineEntry
from diagnose.errors.defects import netted
from diagnose.facts import duration, spoken
from diagnose.report.text.breakdown import print_breakdown
from diagnose.report.text.changes import (
    print_findings,
    print_not_advised,
    print_not_judged,
    print_plan,
)
from diagnose.report.text.columns import TextColumn, heads, line, room
from diagnose.report.text.first_screen import print_brief, print_first_screen
from diagnose.report.text.job import print_job, print_late_ranks, print_missing, print_ranks
from diagnose.report.text.page import Extent, Page, widest
from diagnose.report.text.summary import (
    print_cost,
    print_goodput,
    print_history,
    print_mfu,
    print_notes,
    print_provenance,
    print_slow_steps,
    print_steps,
    print_windows,
)
from diagnose.report.views.breakdown import basis
from diagnose.report.views.capacity import CapacityTable, capacity_view
from diagnose.report.views.first_screen import first_screen
from diagnose.report.views.operators import longest_operators_line
from diagnose.report.views.plain import plain
from diagnose.report.views.ranges import OF, RangeView, ranges_view
from diagnose.report.views.sections import LeftOut, spelled
from diagnose.report.views.user_code import FunctionView, user_code_view
from diagnose.report.views.words import cause_name, counted, short_name, times


def print_capacity(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """Print the job's need of device memory by its sizes, as a part of the details."""
    view = capacity_view(diagnosis)
    if not extent.details or view is None:
        return
    page.entries("memory", [Text(line) for line in view.lines])
    for table in view.tables:
        page.gap()
        page.hanging(f"{table.caption}:")
        for row in table.rows:
            page.hanging(_line(table, row))
    page.gap()


def _line(table: CapacityTable, row: tuple[str, ...]) -> str:
    """A part with its size; else what the row is about, and each amount with its head."""
    name, *amounts = row
    if len(amounts) == 1:
        return f"{amounts[0]:>10}  {name}"
    told = (f"{head}: {amount}" for head, amount in zip(table.heads[1:], amounts, strict=True))
    return f"{name} - {'; '.join(told)}"


Row = TypeVar("Row", KernelRow, OperatorRow)
_FIGURES = (TextColumn("count", 9, least=64), TextColumn("time", 10), TextColumn("share", 9))
_OF_KERNELS = (
    *_FIGURES,
    TextColumn("bound", 14, least=64, is_word=True),
    TextColumn("operator", 30, least=100, is_word=True),
)
_OF_OPERATORS = (
    *_FIGURES,
    TextColumn("kind", 24, least=80, is_word=True),
    TextColumn("shapes", 34, least=120, is_word=True),
)


def print_kernels(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """Print as many of the longest kernels by name as requested, or that there are none."""
    rows = diagnosis.kernels
    if not extent.kernels or (not rows and diagnosis.host_operators):
        return
    if not rows:
        page.paragraph("no GPU kernels in the counted steps", label="kernels")
        page.gap()
        return
    of = basis(diagnosis).name
    about = f"the longest on a typical rank, per step, in % of the {of}; those of several streams can run together"
    page.paragraph(about, label="kernels")
    page.line(Text(line(page, _OF_KERNELS, "kernel", heads(_OF_KERNELS)), "dim"))
    for row in _named(rows)[: extent.kernels]:
        cells = _figures(row) | {"bound": row.bound, "operator": plain(row.operator)}
        page.line(Text(line(page, _OF_KERNELS, short_name(row.name), cells)))
    _rest(page, rows, extent.kernels)


def print_host_operators(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """Print the longest operators of jobs with operators and without kernels: a line, or as many as are requested."""
    rows, of = diagnosis.host_operators, basis(diagnosis).name
    if not extent.kernels or not rows:
        if extent.details and (longest := longest_operators_line(diagnosis)):
            page.paragraph(longest, label="operators")
            page.gap()
        return
    about = f"no GPU kernels; the longest on a typical rank, per step, in % of the {of}, what each calls left out"
    page.paragraph(about, label="operators")
    page.line(Text(line(page, _OF_OPERATORS, "operator", heads(_OF_OPERATORS)), "dim"))
    for row in _named(rows)[: extent.kernels]:
        cells = _figures(row) | {"kind": row.kind, "shapes": plain(row.shapes)}
        page.line(Text(line(page, _OF_OPERATORS, plain(row.name), cells)))
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


RANGES_SHOWN = 30
_ON_HOST = (TextColumn("count", 9, least=64), TextColumn("time", 10), TextColumn("share", 9))
_ON_DEVICE = (TextColumn("GPU work", 11, least=80), TextColumn("idle", 9, least=64))
_BY = TextColumn("opened by", 11, least=100, is_word=True)


def print_ranges(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """Print every range; only a part of the details."""
    rows = ranges_view(diagnosis)
    if rows and extent.details:
        _listed_ranges(page, diagnosis, rows)


def _listed_ranges(page: Page, diagnosis: Diagnosis, rows: list[RangeView]) -> None:
    on_device = any(row.gpu for row in rows)
    idle = f", idle time in % of the {basis(diagnosis).name}" if on_device else ""
    page.paragraph(f"named ranges of a typical rank, per step, in % of {OF}{idle}; ranges can nest", label="ranges")
    columns = (*_ON_HOST, *(_ON_DEVICE if on_device else ()), _BY)
    page.line(Text(line(page, columns, "range", heads(columns)), "dim"))
    for row in rows[:RANGES_SHOWN]:
        of_host = {"count": row.count, "time": row.time, "share": row.share}
        cells = of_host | {"GPU work": row.gpu, "idle": row.idle, "opened by": row.row.by}
        page.line(Text(line(page, columns, row.name, cells)))
    if len(rows) > RANGES_SHOWN:
        page.line(Text(f"  +{counted(len(rows) - RANGES_SHOWN, 'range')}", "dim"))
    page.gap()


_ROOFLINE: tuple[tuple[str, int, Callable[[RooflineEntry], str]], ...] = (
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
    page.paragraph(f"kernels {about}", label="roofline")
    _table(page, diagnosis.roofline, _family)
    page.gap()
    if diagnosis.operators:
        page.paragraph("those whose kernels take longest, by argument sizes", label="operators")
        _table(page, diagnosis.operators[:_OPERATORS_SHOWN], lambda e: plain(f"{e.family} {e.precision}"))
        page.gap()


def _table(page: Page, entries: Sequence[RooflineEntry], name: Callable[[RooflineEntry], str]) -> None:
    columns = _ROOFLINE if page.width >= _NARROW else _ROOFLINE[:3]
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


SHOWN = 30
_FUNCTIONS = (
    TextColumn("own", 9),
    TextColumn("with calls", 12, least=64),
    TextColumn("doing", 13, least=50, is_word=True),
)


def print_user_code(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """Print the user's functions; only a part of the details."""
    view = user_code_view(diagnosis)
    if view is None or not extent.details:
        return
    if view.unknown:
        page.paragraph(f"where it is, is unknown: {view.unknown}", label="python")
    else:
        cost = f"; {view.cost}" if view.cost else ""
        page.paragraph(f"where it is, in % of {view.of}{cost}", label="python")
        _listed_functions(page, view.functions, SHOWN)
    page.gap()


def _listed_functions(page: Page, functions: Sequence[FunctionView], most: int) -> None:
    page.line(Text(line(page, _FUNCTIONS, "function (hottest line)", heads(_FUNCTIONS)), "dim"))
    for each in functions[:most]:
        cells = {"own": each.share, "with calls": each.total, "doing": each.row.doing}
        fits = cell_len(each.place) <= room(page, _FUNCTIONS)
        page.line(Text(line(page, _FUNCTIONS, each.place if fits else each.in_file, cells)))
        if each.calls:
            page.line(Text(f"    in it {each.calls}", "dim"))
    if len(functions) > most:
        page.line(Text(f"  +{counted(len(functions) - most, 'function')}", "dim"))


_UNDRAWN = LeftOut("lines of text cannot draw it; --html does")
REPORT_LABEL = 14  # cells of the label column; "to learn more" is the longest label


def print_verdict(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """Print the first screen, and with `details` what it rests on."""
    print_first_screen(page, diagnosis, "" if extent.details else "More: --details")
    if extent.details:
        page.gap()
        print_mfu(page, diagnosis)


def print_causes(page: Page, diagnosis: Diagnosis, extent: Extent) -> None:
    """Print the causes; of a step that says nothing about the job only as a part of the details."""
    if extent.details or first_screen(diagnosis).classes:
        print_breakdown(page, diagnosis, extent)


SECTIONS: dict[str, Callable[[Page, Diagnosis, Extent], None] | LeftOut] = {
    "verdict": print_verdict,
    "applied": LeftOut("the first screen has it"),
    "steps": print_steps,
    "windows": print_windows,
    "notes": print_notes,
    "history": print_history,
    "goodput": print_goodput,
    "slow_steps": print_slow_steps,
    "missing": print_missing,
    "ledger": print_causes,
    "step_times": _UNDRAWN,
    "memory_over_time": _UNDRAWN,
    "job_timeline": _UNDRAWN,
    "timeline": _UNDRAWN,
    "roofline": print_roofline,
    "kernels": print_kernels,
    "host_operators": print_host_operators,
    "user_code": print_user_code,
    "ranges": print_ranges,
    "capacity": print_capacity,
    "ranks": print_ranks,
    "late_ranks": print_late_ranks,
    "job": print_job,
    "plan": print_plan,
    "cost": print_cost,
    "findings": print_findings,
    "not_advised": print_not_advised,
    "not_judged": print_not_judged,
    "provenance": print_provenance,
}


def render(diagnosis: Diagnosis, console: Console, *, details: bool = False, kernels: int = 0) -> None:
    """Print `diagnosis`: two screens, or with `details` everything; `kernels` is how many of the longest to list."""
    page, extent = Page(console, REPORT_LABEL), Extent(details, kernels)
    for name, section in SECTIONS.items():
        if not isinstance(section, LeftOut):
            netted(spelled(name), lambda show=section: show(page, diagnosis, extent), page.paragraph)  # type: ignore[misc]


def render_brief(diagnosis: Diagnosis, console: Console) -> None:
    """Print the first five lines."""
    print_brief(Page(console), diagnosis)


def render_first_screen(diagnosis: Diagnosis, console: Console) -> None:
    """Print the answer alone, without the causes behind it."""
    print_first_screen(Page(console), diagnosis)
