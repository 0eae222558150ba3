"""The breakdown of the step: a bar of classes, and the waterfall as a table whose bars start where the one above
ends.
"""

from dataclasses import dataclass

from diagnose.diagnosis import IRON_LAW, CauseClass, Diagnosis
from diagnose.facts import duration
from diagnose.report.views.breakdown import CLASS_NAMES, INVISIBLE, BreakdownRow, basis, outside_line, rows
from diagnose.report.views.words import causes_named

ORDER: tuple[CauseClass, ...] = ("compute", "memory", "communication", "data", "host", "unexplained")


@dataclass(frozen=True)
class ClassSegment:
    """A class's part of the step; `x` and `width` in percent of it."""

    key: str
    name: str
    share: float
    x: float
    width: float


@dataclass(frozen=True)
class WaterfallBar:
    """One row of the waterfall; `x` and `width` in percent of the step; `term` is a class's term of the iron law, with
    the axis on which it is cured.
    """

    name: str
    per_step: str
    share: float
    key: str
    is_class: bool
    term: str
    x: float
    width: float


@dataclass(frozen=True)
class BreakdownView:
    """The breakdown as drawn: `heading` names the denominator of the shares; `bars` are the terminal's rows, `every`
    all rows; `law` is the step as the sum of the iron law's terms, and `outside` is time outside the step.
    """

    heading: str
    law: str
    segments: list[ClassSegment]
    bars: list[WaterfallBar]
    every: list[WaterfallBar]
    outside: str


def breakdown_view(diagnosis: Diagnosis) -> BreakdownView:
    """The breakdown by class, and the waterfall."""
    of = basis(diagnosis)
    average = f", {of.average}" if of.average else ""
    return BreakdownView(
        heading=f"of the {of.name}, {duration(of.step_ns)}{average}",
        law=_law(diagnosis),
        segments=_segments(diagnosis),
        bars=_bars(diagnosis, rows(diagnosis.waterfall, named=causes_named(diagnosis))),
        every=_bars(diagnosis, rows(diagnosis.waterfall, True, causes_named(diagnosis))),
        outside=outside_line(diagnosis),
    )


def _law(diagnosis: Diagnosis) -> str:
    """The step as its terms, as "175.5 ms = D/BW 91.8 ms + O/(R·eta) 65.6 ms + L 18.0 ms"; "" without a ledger."""
    of, terms = basis(diagnosis), dict[str, int]()
    for entry in diagnosis.ledger:
        name = IRON_LAW[entry.class_].term or CLASS_NAMES[entry.class_]
        terms[name] = terms.get(name, 0) + entry.ns
    shown = [f"{name} {of.per_step(ns)}" for name, ns in terms.items() if ns >= INVISIBLE * of.total_ns]
    return f"{of.per_step(of.total_ns)} = {' + '.join(shown)}" if shown else ""


def _segments(diagnosis: Diagnosis) -> list[ClassSegment]:
    segments, x = [], 0.0
    for key in ORDER:
        share = sum(entry.share for entry in diagnosis.ledger if entry.class_ == key)
        if share >= INVISIBLE:
            segments.append(ClassSegment(key, CLASS_NAMES[key], share, 100 * x, 100 * share))
            x += share
    return segments


def _bars(diagnosis: Diagnosis, listed: list[BreakdownRow]) -> list[WaterfallBar]:
    """Bars for the rows: each class begins where the one before ended, and its parts lie within it."""
    of, bars = basis(diagnosis), []
    x = inner = 0.0
    key = ""
    for row in listed:
        if row.class_:
            key, inner, start = row.class_, x, x
            x += row.share
        else:
            start = inner
            inner += row.share
        bar = WaterfallBar(
            row.name.strip(), of.per_step(row.ns), row.share, key, bool(row.class_), _term(row.class_), 100 * start,
            100 * row.share,
        )  # fmt: skip
        bars.append(bar)
    return bars


def _term(class_: CauseClass | None) -> str:
    law = IRON_LAW[class_] if class_ else None
    return f"{law.term}, {law.axis}" if law is not None and law.term else ""
