"""The breakdown of the step: a bar of classes, and the waterfall as a table whose bars start where the one above
ends.
"""

from dataclasses import dataclass

from diagnose.diagnosis import CauseClass, Diagnosis
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
    """One row of the waterfall; `x` and `width` in percent of the step."""

    name: str
    per_step: str
    share: float
    key: str
    is_class: bool
    x: float
    width: float


@dataclass(frozen=True)
class BreakdownView:
    """The breakdown as drawn: `heading` names the denominator of the shares; `bars` are the terminal's rows, `every`
    all rows; `outside` is time outside the step.
    """

    heading: str
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
        segments=_segments(diagnosis),
        bars=_bars(diagnosis, rows(diagnosis.waterfall, named=causes_named(diagnosis))),
        every=_bars(diagnosis, rows(diagnosis.waterfall, True, causes_named(diagnosis))),
        outside=outside_line(diagnosis),
    )


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
            row.name.strip(), of.per_step(row.ns), row.share, key, bool(row.class_), 100 * start, 100 * row.share
        )
        bars.append(bar)
    return bars
