"""A comparison in words and rows that every form of its report shares."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from diagnose.commands.compare.answer import (
    Changed,
    ComparedRun,
    Comparison,
    KernelDifference,
    Promise,
)
from diagnose.diagnosis import CauseClass
from diagnose.facts import duration, spoken
from diagnose.report.views.breakdown import CLASS_NAMES, INVISIBLE
from diagnose.report.views.first_screen import ScreenLine
from diagnose.report.views.gains import speedup
from diagnose.report.views.one_unit import OneUnit, of_times
from diagnose.report.views.plain import plain
from diagnose.report.views.words import cause_name, counted, short_name, times

Mood = Literal["good", "bad", "doubtful", "neutral"]
MOST_CAUSES, MOST_KERNELS, MOST_SETTINGS, MOST_RANKS = 12, 10, 30, 16
MOST_DOUBTS = 2
_WORTH_A_ROW = 0.002  # of the step
_MOODS: dict[str, Mood] = {"better": "good", "worse": "bad", "no_difference": "neutral", "not_comparable": "doubtful"}
_CHANGES = {"added": "only in B", "gone": "only in A", "count": "other count", "time": "other time each", "rest": ""}
Row = tuple[str, ...]


class ComparedRows(msgspec.Struct, frozen=True):
    """A table: its title, its headings and its rows, each with a name first and figures after it."""

    title: str
    heads: Row
    rows: tuple[Row, ...]
    says: str = ""


class ComparisonView(msgspec.Struct, frozen=True):
    """The first lines, a headline that holds them in one, its reason, the tables that are not empty, and the notes.

    `sources` names A and B.
    """

    head: tuple[ScreenLine, ...]
    sources: tuple[tuple[str, str], ...]
    headline: str
    mood: Mood
    because: str
    promise: str
    tables: tuple[ComparedRows, ...]
    notes: tuple[str, ...]


def comparison_view(comparison: Comparison) -> ComparisonView:
    """All parts of a report of the comparison."""
    c = comparison
    tables = (_runs(c), _causes(c), _kernels(c), _ranks(c), _configuration(c))
    missing = ("; ".join(filter(None, (f"{p.what} not compared: {p.because}", p.do))) for p in c.not_compared)
    return ComparisonView(
        head=_head(c),
        sources=(("A", plain(c.before.source)), ("B", plain(c.after.source))),
        headline=headline(c),
        mood=_MOODS[c.verdict],
        because=_sure(c),
        promise=promise_line(c.promise),
        tables=tuple(table for table in tables if table.rows),
        notes=tuple(plain(note) for note in (*c.notes, *missing)),
    )


def headline(comparison: Comparison) -> str:
    """The headline, as "B is 1.40x faster than A (1.31-1.50x): data wait fell by 56.4 ms of 175.5 ms per step"."""
    if comparison.speedup is None:
        return f"not comparable: {plain(comparison.because)}"
    low, mid, high = comparison.speedup
    if comparison.verdict == "no_difference":
        return f"no difference: B is {mid:.3f}x as fast as A{_by(comparison)} ({low:.3f}-{high:.3f}x)"
    if comparison.verdict == "better":
        text = f"B is {_times(mid)} faster than A{_by(comparison)} ({_range(low, high)})"
    else:
        text = f"B is {_times(1 / mid)} slower than A{_by(comparison)} ({_range(1 / high, 1 / low)})"
    mover = _mover(comparison)
    return f"{text}: {mover}" if mover else text


def _head(c: Comparison) -> tuple[ScreenLine, ...]:
    """The verdict with its range, what moved, and what weakens it."""
    return (
        ScreenLine("verdict", _verdict(c), warns=c.verdict == "not_comparable"),
        ScreenLine("why", _why(c)),
        ScreenLine("doubt", plain("; ".join(_doubts(c)[:MOST_DOUBTS]))),
    )


def _verdict(c: Comparison) -> str:
    if c.speedup is None:
        return f"not comparable: {plain(c.because)}"
    low, mid, high = c.speedup
    steps = _of_both(c)
    if c.verdict == "no_difference":
        return f"no difference{_by(c)}: {low:.3f}-{high:.3f}x is within the noise{steps}"
    if c.verdict == "better":
        return f"B is {_times(mid)} faster{_by(c)} (sure: {_range(low, high)}){steps}"
    return f"B is {_times(1 / mid)} slower{_by(c)} (sure: {_range(1 / high, 1 / low)}){steps}"


def _of_both(c: Comparison) -> str:
    """The step times of both sides in one unit, if the speed is theirs."""
    if c.before.step_ns is None or c.after.step_ns is None or c.speedup_of != "step time":
        return ""
    unit = of_times([c.before.step_ns, c.after.step_ns])
    return f": {unit.of(c.before.step_ns).removesuffix(f' {unit.name}')} -> {unit.of(c.after.step_ns)} per step"


def _why(c: Comparison) -> str:
    """The causes that moved most, those in the direction of the verdict first."""
    least = _WORTH_A_ROW * max(c.before_ns or 0, c.after_ns or 0)
    longer = (c.difference_ns or 0) > 0
    moved = [row for row in c.difference if abs(row.ns) >= max(least, 1)]
    shown = sorted(moved, key=lambda row: ((row.ns > 0) is not longer, -abs(row.ns)))
    first = next((row for row in shown if (row.ns > 0) is longer), None)
    other = next((row for row in shown if (row.ns > 0) is not longer), None)
    unit = of_times(row.ns for row in (first, other) if row is not None)
    parts = [
        f"{cause_name(row.cause)} takes {unit.of(abs(row.ns))} {'more' if row.ns > 0 else 'less'}"
        for row in (first, other)
        if row is not None and unit.cell(row.ns)[0] != "<"
    ]
    return plain(" and ".join(parts)) + (" per step" if parts else "")


def _doubts(c: Comparison) -> list[str]:
    told = [
        f"{counted(run.left_out, 'step')} of {name} {'is' if run.left_out == 1 else 'are'} left out"
        for name, run in (("A", c.before), ("B", c.after))
        if run.left_out
    ]
    if c.speedup is not None and c.same_work is False:
        told.append("the two do different work")
    if c.verdict == "no_difference" and c.detectable_share is not None:
        told.insert(0, f"a difference below {spoken(c.detectable_share, 'share')} would not show")
    return told + [f"the {part.what} {'are' if part.what[-1] == 's' else 'is'} not compared" for part in c.not_compared]


def _by(comparison: Comparison) -> str:
    return "" if comparison.speedup_of == "step time" else f" by {comparison.speedup_of}"


def _times(factor: float) -> str:
    return f"{factor:.2f}x" if abs(factor - 1) >= 0.0095 else f"{factor:.3f}x"


def _range(low: float, high: float) -> str:
    digits = 2 if abs(low - 1) >= 0.0095 else 3
    return f"{low:.{digits}f}-{high:.{digits}f}x"


def _mover(comparison: Comparison) -> str:
    """The cause that moved most in the direction of the verdict."""
    sign = -1 if comparison.verdict == "better" else 1
    moved = [row for row in comparison.difference if row.ns * sign > 0]
    step_ns, longer_ns = comparison.before_ns or 0, comparison.difference_ns or 0
    if not moved or not step_ns or longer_ns * sign <= 0 or abs(moved[0].ns) < _WORTH_A_ROW * step_ns:
        return ""
    name, ns = cause_name(moved[0].cause), duration(abs(moved[0].ns))
    return f"{name} fell by {ns} of {duration(step_ns)} per step" if sign < 0 else f"{name} grew by {ns} per step"


def _sure(comparison: Comparison) -> str:
    """The noise that the range holds, which says how sure it is."""
    if comparison.speedup is None:
        return ""
    forecasts = sum(run.predicted_ns is not None for run in (comparison.before, comparison.after))
    noise = f"{spoken(comparison.floor_share, 'share')} run-to-run noise"
    error = "the error of both forecasts" if forecasts == 2 else "the error of the forecast"
    held = error if forecasts == 2 else f"{error if forecasts else 'step noise'} and {noise}"
    return plain(f"{comparison.because}, including {held}")


def promise_line(prediction: Promise | None) -> str:
    """Prediction of the patch of one side, and the measured speed-up; "" without a patch."""
    if prediction is None:
        return ""
    applied = prediction.applied
    settings = ", ".join(f"{key}={value}" for patch in applied.patches for key, value in patch.set.items())
    predicted = speedup(applied.predicted_speedup, exact=True) or "unknown"
    measured = "unknown" if prediction.measured is None else f"{prediction.measured[1]:.2f}x"
    judged = f": {prediction.judgement.spoken}" if prediction.judgement else ""
    side = "B" if prediction.patched == "after" else "A"
    return plain(f"{side} runs with {settings}: predicted {predicted}, achieved {measured}{judged}")


def _runs(c: Comparison) -> ComparedRows:
    """Table of both sides, with a row for each property that at least one of them has."""
    rows: list[Row] = []
    rows += _pair("device", plain(c.before.device), plain(c.after.device))
    rows += _pair("ranks", *(f"{run.ranks:,}" if run.ranks else "" for run in (c.before, c.after)))
    rows += _pair("steps", *(_steps(run) for run in (c.before, c.after)))
    unit = of_times(run.step_ns for run in (c.before, c.after) if run.step_ns is not None)
    rows += _pair("per step", *(_step(run, unit) for run in (c.before, c.after)))
    rows += [("predicted", _span(c.before) or "-", _span(c.after) or "-")] * bool(_span(c.before) or _span(c.after))
    rows += _pair("tokens/s", *(_rate(run.tokens_per_s) for run in (c.before, c.after)))
    rows += _pair("samples/s", *(_rate(run.samples_per_s) for run in (c.before, c.after)))
    if "per GPU" in c.speedup_of:
        rows += _pair("tokens/s per GPU", *(_rate(run.tokens_per_s_per_rank) for run in (c.before, c.after)))
    listed = {row[0] for row in rows}
    rows += [(plain(one.what), _value(one.before), _value(one.after)) for one in c.work if one.what not in listed]
    return ComparedRows("Runs", ("", "A", "B"), tuple(rows))


def _pair(name: str, before: str, after: str) -> list[Row]:
    return [(name, before or "unknown", after or "unknown")] if before or after else []


def _steps(run: ComparedRun) -> str:
    if not run.steps:
        return ""
    name = (run.step or "step").replace("step", "step" if run.steps == 1 else "steps", 1)
    left = f", {run.left_out:,} left out" if run.left_out else ""
    return f"{run.steps:,} {name}{left}"


def _step(run: ComparedRun, unit: OneUnit) -> str:
    if run.step_ns is None:
        return ""
    noise = "" if run.noise_share is None else f", ±{spoken(run.noise_share, 'share')} each"
    return f"{unit.of(run.step_ns)}{noise}"


def _span(run: ComparedRun) -> str:
    """The range of a forecast; "" for a run that was measured."""
    return "" if run.predicted_ns is None else f"{duration(run.predicted_ns[0])} to {duration(run.predicted_ns[2])}"


def _rate(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _value(value: float | bool | str | None) -> str:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return "-" if value is None else plain(value)[:80]
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.6g}"


class Moved(msgspec.Struct, frozen=True):
    """A cause, or all the smaller ones, per step: `ns` is after less before."""

    name: str
    class_: CauseClass | None
    before_ns: int
    after_ns: int
    ns: int


def moved_causes(c: Comparison, least: float = _WORTH_A_ROW) -> list[Moved]:
    """The causes that moved by `least` of the longer step, then the rest as one; they add up to B - A."""
    enough = least * max(c.before_ns or 0, c.after_ns or 0)
    shown = [row for row in c.difference if abs(row.ns) >= enough][:MOST_CAUSES]
    rest = [row for row in c.difference if row not in shown]
    moved = [Moved(cause_name(row.cause), row.class_, row.before_ns, row.after_ns, row.ns) for row in shown]
    if rest:
        sums = (sum(r.before_ns for r in rest), sum(r.after_ns for r in rest), sum(r.ns for r in rest))
        moved.append(Moved(counted(len(rest), "more cause"), None, *sums))
    return moved


def _causes(c: Comparison) -> ComparedRows:
    """The causes that moved, the rest in a row, and the step; the column of differences adds up."""
    if c.before_ns is None or c.after_ns is None or c.difference_ns is None:
        return ComparedRows("", (), ())
    unit = of_times([c.before_ns, c.after_ns])
    step = Moved("the step", None, c.before_ns, c.after_ns, c.difference_ns)
    rows = [_cause(row, c.before_ns, unit) for row in (*moved_causes(c), step)]
    work = "" if c.speedup_of == "step time" else ", B's for the work of a step of A"
    says = f"Per step{work}; a share is of the step of A. The rows add up to the step."
    return ComparedRows("Causes", ("cause", "class", "A", "B", "B - A", "share"), tuple(rows), says)


def _cause(row: Moved, step_ns: int, unit: OneUnit) -> Row:
    figures = _figures(row.before_ns, row.after_ns, row.ns, of_ns=step_ns, unit=unit)
    return (row.name, CLASS_NAMES[row.class_] if row.class_ else "", *figures)


def _figures(before_ns: int, after_ns: int, ns: int, of_ns: int, unit: OneUnit) -> Row:
    share = f"{100 * ns / of_ns:+.1f} %" if of_ns and abs(ns) >= INVISIBLE * of_ns else "-"
    return unit.cell(before_ns), unit.cell(after_ns), unit.cell(ns, sign=True), share


def _kernels(c: Comparison) -> ComparedRows:
    shown = [row for row in c.kernels if row.change != "rest"][:MOST_KERNELS]
    others = [row for row in c.kernels if row not in shown]
    unit = of_times([max(row.before_ns, row.after_ns) for row in shown])
    rows = [_kernel(row, short_name(row.name), unit) for row in shown]
    if shown and others:
        rows.append(
            (
                "all others",
                "",
                _counts(sum(row.before_count for row in others), sum(row.after_count for row in others)),
                unit.cell(sum(row.before_ns for row in others)),
                unit.cell(sum(row.after_ns for row in others)),
                unit.cell(sum(row.ns for row in others), sign=True),
            )
        )
    says = "Per step of a typical rank, as it ran. The rows add up to the time of all of them."
    return ComparedRows(
        f"{c.kernel_kind.capitalize()}s", (c.kernel_kind, "change", "count", "A", "B", "B - A"), tuple(rows), says
    )


def _kernel(row: KernelDifference, name: str, unit: OneUnit) -> Row:
    counts = _counts(row.before_count, row.after_count)
    return (
        name,
        _CHANGES[row.change],
        counts,
        unit.cell(row.before_ns),
        unit.cell(row.after_ns),
        unit.cell(row.ns, sign=True),
    )


def _counts(before: float, after: float) -> str:
    return times(before) if before == after else f"{times(before)} -> {times(after)}"


def _ranks(c: Comparison) -> ComparedRows:
    """The ranks whose own work changed most, in the order of their numbers."""
    unit = of_times(max(rank.before_own_ns, rank.after_own_ns) for rank in c.ranks)
    most = sorted(c.ranks, key=lambda r: -abs(r.after_own_ns - r.before_own_ns))[:MOST_RANKS]
    rows = tuple(
        (
            f"rank {rank.rank}",
            unit.cell(rank.before_own_ns) + (" late" if rank.late_before else ""),
            unit.cell(rank.after_own_ns) + (" late" if rank.late_after else ""),
            unit.cell(rank.after_own_ns - rank.before_own_ns, sign=True),
        )
        for rank in sorted(most, key=lambda rank: rank.rank)
    )
    left = f" {len(c.ranks) - len(rows)} ranks that changed less are left out." if len(c.ranks) > len(rows) else ""
    says = f"A rank's step without waiting for other ranks and without communication that no work hides.{left}"
    return ComparedRows("Ranks", ("rank", "A", "B", "B - A"), rows, says)


def _configuration(c: Comparison) -> ComparedRows:
    rows = _changed(c.configuration[:MOST_SETTINGS])
    left = len(c.configuration) - len(rows)
    says = f"{left} more differ: --json has all." if left else ""
    return ComparedRows("Configuration", ("setting", "A", "B"), rows, says)


def _changed(changes: Sequence[Changed]) -> tuple[Row, ...]:
    return tuple((plain(one.what), _value(one.before), _value(one.after)) for one in changes)
