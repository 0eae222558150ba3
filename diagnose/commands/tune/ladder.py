"""The runs of a tune on one axis of factors: what was predicted of each, and what it achieved."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from diagnose.commands.tune import views
from diagnose.commands.tune.answer import Rung, Tuning
from diagnose.report.html.factors import FactorAxis, FactorMark, axis_of, mark
from diagnose.report.views.gains import factor


@dataclass(frozen=True)
class LadderRow:
    """One run; `inside` is whether what it achieved lies in the predicted range, None if either is unknown."""

    number: int
    change: str
    outcome: str
    is_kept: bool
    says: str
    predicted: FactorMark | None
    achieved: FactorMark | None
    inside: bool | None


@dataclass(frozen=True)
class Ladder:
    """The rows, and the axis they share; `one` is the place of 1.0x.

    `way` are the places of the speed over run 0 after each row, by which the kept changes lead to `total`.
    """

    axis: FactorAxis
    one: float
    rows: list[LadderRow]
    way: list[float]
    total: str

    @property
    def path(self) -> str:
        """The way as a line of steps, a unit down for each row."""
        return f"M{self.one:.2f} 0" + "".join(f"H{x:.2f}v1" for x in self.way)


def ladder_of(tuning: Tuning) -> Ladder | None:
    """The runs that were compared with another; None if there is none."""
    shown = [(at, rung) for at, rung in enumerate(tuning.rungs) if rung.predicted or rung.achieved]
    if not shown:
        return None
    totals = list(accumulate((_total(rung) for _, rung in shown), lambda best, total: total or best, initial=1.0))[1:]
    ends = [end for _, rung in shown for end in (*(rung.predicted or ()), *(rung.achieved or ())) if end]
    axis = axis_of([*ends, *totals])
    rows = [_row(rung, axis, tuning.rungs[:at]) for at, rung in shown]
    return Ladder(axis, axis.at(1.0), rows, [axis.at(total) for total in totals], f"{factor(totals[-1])}x")


def _is_kept(rung: Rung) -> bool:
    return rung.decision in ("kept", "held")


def _total(rung: Rung) -> float | None:
    """The speed over run 0 once the run's change is kept; None if it is not."""
    return rung.total[1] if rung.total and _is_kept(rung) else None


def _row(rung: Rung, axis: FactorAxis, earlier: Sequence[Rung]) -> LadderRow:
    predicted, achieved = rung.predicted, rung.achieved
    return LadderRow(
        number=rung.number,
        change=views.differing(rung, earlier),
        outcome=views.outcome(rung),
        is_kept=_is_kept(rung),
        says=views.achieved(achieved) or "not measured",
        predicted=mark(axis, *predicted) if predicted else None,
        achieved=mark(axis, achieved[0], achieved[2], achieved[1]) if achieved else None,
        inside=predicted[0] <= achieved[1] <= (predicted[1] or achieved[1]) if predicted and achieved else None,
    )
