"""The breakdown of the step: a bar of classes, and the waterfall as a table whose bars start where the one above
ends.
"""

from collections.abc import Set
from dataclasses import dataclass, replace

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
    the axis on which it is cured; `anchor` is the id of the first row of a term, else "".
    """

    name: str
    per_step: str
    share: float
    key: CauseClass
    is_class: bool
    term: str
    x: float
    width: float
    anchor: str = ""


@dataclass(frozen=True)
class LawTerm:
    """A term of the iron law with its time, and the id of its first row; "" if it has none."""

    says: str
    anchor: str


@dataclass(frozen=True)
class BreakdownView:
    """The breakdown as drawn: `heading` names the denominator of the shares; `bars` are the terminal's rows, `every`
    all rows; `step` is the sum of the iron law's terms in `law`, and `outside` is time outside the step.
    """

    heading: str
    step: str
    law: list[LawTerm]
    segments: list[ClassSegment]
    bars: list[WaterfallBar]
    every: list[WaterfallBar]
    outside: str


def breakdown_view(diagnosis: Diagnosis) -> BreakdownView:
    """The breakdown by class, and the waterfall."""
    of = basis(diagnosis)
    average = f", {of.average}" if of.average else ""
    bars = _anchored(_bars(diagnosis, rows(diagnosis.waterfall, named=causes_named(diagnosis))))
    return BreakdownView(
        heading=f"of the {of.name}, {duration(of.step_ns)}{average}",
        step=of.per_step(of.total_ns),
        law=_law(diagnosis, {bar.anchor for bar in bars}),
        segments=_segments(diagnosis),
        bars=bars,
        every=_bars(diagnosis, rows(diagnosis.waterfall, True, causes_named(diagnosis))),
        outside=outside_line(diagnosis),
    )


def _law(diagnosis: Diagnosis, rows_with: Set[str]) -> list[LawTerm]:
    """The step's terms, as "D/BW 91.8 ms", "O/(R·eta) 65.6 ms" and "L 18.0 ms"; empty without a ledger."""
    of, terms = basis(diagnosis), dict[str, int]()
    for entry in diagnosis.ledger:
        terms[_law_name(entry.class_)] = terms.get(_law_name(entry.class_), 0) + entry.ns
    return [
        LawTerm(f"{name} {of.per_step(ns)}", _anchor(name) if _anchor(name) in rows_with else "")
        for name, ns in terms.items()
        if ns >= INVISIBLE * of.total_ns
    ]


def _law_name(class_: CauseClass) -> str:
    return IRON_LAW[class_].term or CLASS_NAMES[class_]


def _anchor(name: str) -> str:
    return "term-" + "".join(letter for letter in name if letter.isascii() and letter.isalpha())


def _anchored(bars: list[WaterfallBar]) -> list[WaterfallBar]:
    """The rows, the first one of each term with its id."""
    first = {_anchor(_law_name(bar.key)): bar for bar in reversed(bars) if bar.is_class}
    ids = {id(bar): anchor for anchor, bar in first.items()}
    return [replace(bar, anchor=ids.get(id(bar), "")) for bar in bars]


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
    key: CauseClass = "unexplained"
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
