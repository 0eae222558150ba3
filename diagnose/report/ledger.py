"""The ledger as printed: one bar per class, its causes below it, the ranks side by side."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from diagnose.diagnosis import Diagnosis, LedgerEntry, RankReport, Straggler
from diagnose.facts import duration
from diagnose.report.page import Page, plain, widest

SHOWN_FROM = 0.005  # causes below half a percent of the step share one row
RANKS_SHOWN = 16
_SCALES = ((1e9, "s", 3), (1e6, "ms", 1), (1e3, "us", 1))  # the step's length, its unit, digits
STYLE = {
    "data": "magenta",
    "host": "yellow",
    "communication": "cyan",
    "memory": "blue",
    "compute": "green",
    "unexplained": "red",
}
_CLASS_NAMES = {
    "data": "data",
    "host": "host",
    "communication": "communication",
    "memory": "memory-bound work",
    "compute": "compute-bound work",
    "unexplained": "unexplained",
}
_SHORT = {
    "data": "data",
    "host": "host",
    "communication": "comm",
    "memory": "mem",
    "compute": "comp",
    "unexplained": "rest",
}


@dataclass(frozen=True)
class Basis:
    """What every share of the ledger is a share of: `total_ns` over `count` steps."""

    name: str
    total_ns: int
    count: int

    @property
    def step_ns(self) -> float:
        """Mean time of one step."""
        return self.total_ns / max(self.count, 1)

    def per_step(self, ns: int) -> str:
        """`ns` per step, in one unit for the whole ledger so that the column can be compared by eye."""
        size, unit, digits = next(scale for scale in _SCALES if self.step_ns >= scale[0] or scale is _SCALES[-1])
        return f"{ns / max(self.count, 1) / size:,.{digits}f} {unit}"


def basis(diagnosis: Diagnosis) -> Basis:
    """The device step, or the host step when there was no GPU activity."""
    steps = diagnosis.steps
    if steps.device_time_ns is None:
        return Basis("host step", steps.time_ns, steps.count)
    return Basis("device step", steps.device_time_ns, steps.count)


@dataclass(frozen=True)
class Row:
    """One printed line of the ledger; a class has a `style` and gets a bar, a cause has none."""

    name: str
    ns: int
    share: float
    style: str = ""


def rows(entries: Sequence[LedgerEntry]) -> list[Row]:
    """The classes by size, each with its causes by size; every nanosecond is in exactly one cause row."""
    by_class: dict[str, list[LedgerEntry]] = defaultdict(list)
    for entry in entries:
        by_class[entry.class_].append(entry)
    classes = [_class_rows(key, by_class[key]) for key in _CLASS_NAMES]
    return [row for group in sorted(classes, key=lambda group: -group[0].ns) for row in group]


def _class_rows(key: str, entries: Sequence[LedgerEntry]) -> list[Row]:
    """The class, then its causes; a single cause shares the class's line."""
    ns, share = sum(e.ns for e in entries), sum(e.share for e in entries)
    ordered = sorted((e for e in entries if e.ns), key=lambda entry: -entry.ns)
    if len(ordered) == 1:
        return [Row(f"{_CLASS_NAMES[key]}: {_said(ordered[0].cause)}", ns, share, STYLE[key])]
    head = Row(_CLASS_NAMES[key], ns, share, STYLE[key])
    shown = [Row("  " + _said(e.cause), e.ns, e.share) for e in ordered if e.share >= SHOWN_FROM]
    small = [e for e in ordered if e.share < SHOWN_FROM]
    if shown and sum(e.share for e in small) >= SHOWN_FROM / 10:
        shown.append(Row(f"  {len(small)} smaller", sum(e.ns for e in small), sum(e.share for e in small)))
    return [head, *shown]


def _said(cause: str) -> str:
    return plain(cause).replace("_", " ")


def print_ledger(page: Page, diagnosis: Diagnosis) -> None:
    """Time per step and share of each class and cause; the denominator is in the heading."""
    of = basis(diagnosis)
    if not diagnosis.ledger:
        return
    mean = f" (mean of {of.count:,})" if of.count > 1 else ""
    heading = f"of the {of.name}, {duration(of.step_ns)}{mean}, each part takes:"
    for part in Text(heading, "bold").wrap(page.console, page.width):
        page.line(part)
    listed = rows(diagnosis.ledger)
    name_width = widest([row.name for row in listed], min(max(page.width - 34, 16), 40))
    bar_width = min(max(page.width - name_width - 27, 4), 40)
    for row in listed:
        numbers = f"{of.per_step(row.ns):>10}  {100 * row.share:5.1f} %"
        name = Text(page.fitted(row.name, name_width), "bold" if row.style else "")
        bar = page.bar(row.share, bar_width, row.style) if row.style else Text()
        page.line(Text.assemble("  ", name, " ", numbers, "  ", bar))


def print_ranks(page: Page, ranks: Sequence[RankReport], stragglers: Sequence[Straggler]) -> None:
    """One line per rank with its classes side by side; stragglers first, then by rank number."""
    late = {straggler.rank for straggler in stragglers}
    ordered = sorted(ranks, key=lambda rank: (rank.rank not in late, rank.rank))
    page.gap()
    page.paragraph("each class in % of the rank's own step", label="ranks:")
    page.line(Text("  rank verdict            " + "".join(f"{name:>5}" for name in _SHORT.values()), "dim"))
    device_width = page.width - 27 - 5 * len(_SHORT) - 2
    for rank in ordered[:RANKS_SHOWN]:
        shares = {row.style: row.share for row in rows(rank.ledger) if row.style}
        cells = "".join(f"{100 * shares[STYLE[key]]:5.0f}" for key in _SHORT)
        verdict = Text(page.fitted(rank.verdict.class_, 20))
        device = page.fitted(plain(rank.device), device_width) if device_width >= 12 else ""
        page.line(Text.assemble(f"{rank.rank:>6} ", verdict, cells, "  ", (device, "dim")))
    if len(ordered) > RANKS_SHOWN:
        page.line(Text(f"  and {len(ordered) - RANKS_SHOWN:,} more: all are in --json", "dim"))
