"""The first card of the page: the first screen of the report, its gain drawn as a bar."""

from dataclasses import dataclass

from diagnose.diagnosis import Diagnosis, Finding, Verdict
from diagnose.diagnosis.terms import expected_range, may_slow
from diagnose.report.html.factors import FactorAxis, FactorMark, axis_of, mark
from diagnose.report.views.breakdown import basis
from diagnose.report.views.first_screen import ALTERS, WIDE, class_lines, gain_notes, next_words
from diagnose.report.views.plain import plain
from diagnose.report.views.speed_words import speed_line
from diagnose.report.views.summary import VerdictView, doubts_of, verdict_view
from diagnose.report.views.why import why_lines


@dataclass(frozen=True)
class GainBar:
    """The range of a gain on its axis; `one` is the place of 1.0x, and what lies left of it is a loss."""

    axis: FactorAxis
    one: float
    range: FactorMark
    says: str

    @property
    def loss(self) -> float:
        """The length of what lies below 1.0x."""
        return max(min(self.one, self.range.high) - self.range.low, 0.0)


@dataclass(frozen=True)
class VerdictCard:
    """The verdict with what to do about it.

    Attributes:
        title: the class, or that there is none; `confidence` in it, "" for none.
        why: sentences on what limits the step; `sure` says how sure that is, and why.
        shows_classes: whether the classes of this step say something of the job.
        words: the change in words, with the rule in `rule`; "" for no change.
        typed: its lines as they are typed; `how` says how it is made where nothing is to be typed, and `cures` what of
            the step it is about.
        gain: the likely gain with its range; `bar` draws it, and `notes` say what goes with it.
        wide: why the range is wide; `alters` warns that results may change, if they may.
    """

    verdict: VerdictView
    title: str
    confidence: str
    why: list[str]
    sure: str
    shows_classes: bool
    words: str
    rule: str
    typed: list[str]
    cures: str
    how: str
    gain: str
    slows: bool
    bar: GainBar | None
    notes: list[str]
    wide: str
    alters: str
    speed: str


def verdict_card(diagnosis: Diagnosis) -> VerdictCard:
    """The first card of this diagnosis."""
    chosen = diagnosis.finding(diagnosis.next.rule)
    first, *notes = gain_notes(diagnosis, chosen, basis(diagnosis)) or [""]
    wide = next((note for note in notes if note.startswith(WIDE)), "")
    verdict = verdict_view(diagnosis)
    return VerdictCard(
        verdict=verdict,
        title="no verdict" if diagnosis.verdict.withheld else verdict.class_,
        confidence="" if diagnosis.verdict.withheld else verdict.confidence,
        why=why_lines(diagnosis) or [verdict.because],
        sure=_sure(diagnosis.verdict),
        shows_classes=bool(class_lines(diagnosis, basis(diagnosis))),
        words=plain((chosen.action or chosen.do) if chosen else diagnosis.next.says),
        rule=chosen.rule if chosen else "",
        typed=next_words(diagnosis, chosen).splitlines() if chosen and chosen.patch else [],
        cures=plain(chosen.says) if chosen else "",
        how=plain(chosen.do) if chosen and not chosen.patch and chosen.action else "",
        gain=first,
        slows=chosen is not None and may_slow(chosen.predicted_speedup),
        bar=_bar(chosen, first) if diagnosis.next.kind == "change" else None,
        notes=[note for note in notes if note not in (wide, ALTERS)],
        wide=wide.removeprefix(WIDE),
        alters=ALTERS if ALTERS in notes else "",
        speed=speed_line(diagnosis),
    )


def _sure(verdict: Verdict) -> str:
    """The reason for no verdict, or for less than high confidence; without a doubt, what the verdict rests on."""
    reasons = (verdict.withheld, doubts_of(verdict))
    return plain("; ".join(filter(None, reasons)) or verdict.because)


def _bar(chosen: Finding | None, says: str) -> GainBar | None:
    predicted = expected_range(chosen) if chosen else None
    if chosen is None or predicted is None:
        return None
    low, high = predicted
    axis = axis_of([low, high if high is not None else 2 * low])
    return GainBar(axis, axis.at(1.0), mark(axis, low, high, chosen.likely_speedup), says)
