"""Gains in words: a likely value, its range, what is saved, what makes the range wide, and what may go wrong."""

import re

from diagnose.diagnosis import Estimate, Finding, Speedup
from diagnose.diagnosis.terms import Promising, expected_range, gains_surely, may_slow
from diagnose.facts import HOST_STEP
from diagnose.report.views.plain import plain

WIDE = 1.6  # the high end over the low one: from here on the reader is owed the reason
FINE = 1.1  # ends that are closer need a second decimal, as do factors below 1.2
_COARSE_FROM, _WHOLE_FROM = 1.2, 9.95
MAY_SLOW = "may slow it down by up to"
HIDDEN_WORTH_TELLING = 0.02
_BEYOND = {False: "the gaps before this work may stay", True: "what comes behind it may take less time, too"}
_HIDDEN = "other work hides a part of it today"
_UNSURE = re.compile(r"\d+ to \d+ %|\w+ to all|between |at best |at worst |by up to ")
_AT_COMMA = re.compile(r",| \(| where ")
_LONGEST_CLAUSE = 76


def factor(value: float, fine: bool = False) -> str:
    """The factor with no more digits than it deserves: 1.04, 1.4, 15."""
    if value >= _WHOLE_FROM:
        return f"{value:.0f}"
    return f"{value:.2f}" if fine or value < _COARSE_FROM else f"{value:.1f}"


def speedup(predicted: Speedup | None, exact: bool = False) -> str:
    """`(1.0, 1.66)` is "up to 1.7x", `(1.55, 1.8)` is "1.6-1.8x", `(1.55, None)` is "at least 1.6x".

    If `exact`, ends have two decimals, to be held against a measurement.
    """
    if predicted is None:
        return ""
    low, high = predicted
    if high is None:
        return f"at least {factor(low, exact)}x"
    fine = exact or high < FINE * low
    ends = factor(low, fine), factor(high, fine)
    if {*ends} == {"1.00"}:
        return "nothing alone"
    if ends[0] == "1.00":
        return f"up to {ends[1]}x"
    return f"{ends[0]}x" if ends[0] == ends[1] else f"{ends[0]}-{ends[1]}x"


def gain(predicted: Speedup | None, likely: float | None = None) -> str:
    """The likely value with its range: "about 1.4x (1.3-1.5x)"; the range alone if no likely value is known."""
    span = speedup(predicted)
    if predicted is None or predicted[1] is None or likely is None or "-" not in span:
        return span if predicted is None or not may_slow(predicted) else f"{span}: {harm(predicted)}"
    about = f"about {factor(likely, predicted[1] < FINE * predicted[0])}x ({span})"
    return f"{about}: {harm(predicted)}" if may_slow(predicted) else about


def gain_of(change: Promising) -> str:
    """The gain of a change: its likely value, and the range in which eight in ten lie."""
    return gain(expected_range(change), change.likely_speedup)


def harm(predicted: Speedup) -> str:
    """How much slower the step gets in the worst case."""
    return f"{MAY_SLOW} {factor(1 / predicted[0], fine=True)}x"


def together(estimate: Estimate | None) -> str:
    """The joint gain of several changes."""
    return "" if estimate is None else gain((estimate[0], estimate[2]), estimate[1])


def short(change: Promising) -> str:
    """The gain in two words: "about 1.4x", "up to 1.06x"; "" if it may be a loss or is not known."""
    return "" if may_slow(expected_range(change)) else gain_of(change).split(" (")[0]


def saved_ms(change: Promising, step_ns: float) -> str:
    """The time that a step saves, "saves 39-59 ms per step", at most what the best case does: it spends no more on it.

    "" if the low end saves none, or no high end is known.
    """
    gain, best = expected_range(change), change.predicted_speedup
    if gain is None or gain[1] is None or best is None or best[1] is None or not gains_surely(gain):
        return ""
    low, high = ((1 - 1 / end) * step_ns / 1e6 for end in (gain[0], min(gain[1], best[1])))
    ends = ms(low), ms(high)
    return f"saves {ends[0]} ms per step" if ends[0] == ends[1] else f"saves {ends[0]}-{ends[1]} ms per step"


def ms(value: float) -> str:
    """Milliseconds in prose: two significant digits, but all digits before the point."""
    if value >= 9.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 0.995 else f"{value:.2g}"


def reason_wide(finding: Finding) -> str:
    """The reason for a wide range, to follow "wide, because"; "" if the range is narrow or the reason not known."""
    span = expected_range(finding)
    if span is None or span[1] is None or span[1] <= WIDE * span[0]:
        return ""
    booked, hidden, assumed = finding.booked_share, finding.hidden_share or 0.0, _assumed(finding)
    if assumed and span[0] * WIDE < 1 / max(1 - _shown(finding), 1 / _WHOLE_FROM):
        return assumed  # the evidence alone is as wide
    if booked and saves_more_than_shown(finding, span[1], booked):
        return _BEYOND[any(item.of == HOST_STEP for item in finding.evidence)]
    return _HIDDEN if hidden >= HIDDEN_WORTH_TELLING else assumed


def saves_more_than_shown(finding: Finding, high: float, booked: float) -> bool:
    """Whether the best case saves more than all shares of the finding's evidence, and the ledger has more, too."""
    shown = _shown(finding)
    return bool(shown) and min(1 - 1 / high, booked) > shown + HIDDEN_WORTH_TELLING


def _shown(finding: Finding) -> float:
    """The sum of the shares of the evidence."""
    return sum(float(e.value) for e in finding.evidence if e.unit == "share" and not isinstance(e.value, str))


def _assumed(finding: Finding) -> str:
    """The first assumption that is a range."""
    clauses = [clause for part in finding.assumes.split("; ") for clause in part.split(". ")]
    unsure = next((plain(clause) for clause in clauses if _UNSURE.search(clause)), "")
    ends = [found.start() for found in _AT_COMMA.finditer(unsure)]
    shorter = [unsure[:end] for end in ends if _UNSURE.search(unsure[:end])]
    fitting = [text for text in shorter if len(text) <= _LONGEST_CLAUSE]
    return unsure if len(unsure) <= _LONGEST_CLAUSE or not shorter else (fitting or shorter)[-1 if fitting else 0]
