"""Whether a prediction was kept: the one judgement of `run --apply`, `compare`, `tune` and the ledger.

A measured speed says something about a prediction only where the change cured what it was advised for, and where
nothing else that makes steps faster or slower changed beside it.
"""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from diagnose.diagnosis.terms import Estimate, Speedup
from diagnose.facts import Scalar, spoken

ALIKE = 0.005  # printed factors that differ by less look equal
MOVED = 0.1  # of the value before: an evidence that changes by less is not cured
Standing = Literal["as", "less", "more", "unjudged"]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A fact before and with a change; `moved` is whether the difference is one."""

    name: str
    unit: str
    before: Scalar
    after: Scalar
    moved: bool

    @property
    def spoken(self) -> str:
        """The fact with both values."""
        return f"{self.name} {spoken(self.before, self.unit)} -> {spoken(self.after, self.unit)}"


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The standing of a prediction, and the reason in a clause if the speed alone does not give it."""

    standing: Standing
    because: str = ""

    @property
    def kept(self) -> bool | None:
        """Whether it was kept; None if it cannot be judged."""
        return None if self.standing == "unjudged" else self.standing == "as"

    @property
    def spoken(self) -> str:
        """The judgement in a clause."""
        words = {
            "as": "as predicted",
            "less": "less than predicted",
            "more": "more than predicted",
            "unjudged": "cannot be judged",
        }[self.standing]
        return f"{words} ({self.because})" if self.because else words


def judged(
    measured: Estimate, predicted: Speedup, evidence: Sequence[Change] = (), confounders: Sequence[Change] = ()
) -> Judgement:
    """Judge a prediction.

    Args:
        measured: [low, mid, high] of the speed.
        predicted: [low, high] of it; a high end of None is not known.
        evidence: the facts that the rule fires on, as far as both runs know them.
        confounders: facts of the machine that change the speed by themselves, likewise.
    """
    standing = standing_of(measured[1], predicted)
    disturbed = [change for change in confounders if change.moved]
    undisturbed = measured[1] * math.prod(map(_slowed, disturbed))
    if standing_of(undisturbed, predicted) != standing:
        changed = "; ".join(change.spoken for change in disturbed)
        because = f"something else changed, without which it may be {undisturbed:.2f}x: {changed}"
        return Judgement(standing="unjudged", because=because)
    if _shows_nothing(measured, predicted):
        noise = f"the noise of the runs, {measured[0]:.2f}-{measured[2]:.2f}x, holds no effect as well as the promise"
        return Judgement(standing="unjudged", because=noise)
    if not evidence or any(change.moved for change in evidence):
        return Judgement(standing=standing)
    uncured = f"nothing was cured: {'; '.join(change.spoken for change in evidence)}"
    return Judgement(standing="less" if standing == "less" else "unjudged", because=uncured)


def standing_of(measured: float, predicted: Speedup) -> Standing:
    """Whether a measured speed is less than, as, or more than predicted."""
    low, high = predicted
    if measured < low - ALIKE:
        return "less"
    return "more" if high is not None and measured > high + ALIKE else "as"


def _slowed(confounder: Change) -> float:
    """How many times as fast the machine was before as with the change: by the share of its time that it lost, or by
    its clock.
    """
    before, after = float(confounder.before), float(confounder.after)
    one, other = (1 - before, 1 - after) if confounder.unit == "share" else (before, after)
    return one / other if one > 0 and other > 0 else 1.0


def _shows_nothing(measured: Estimate, predicted: Speedup) -> bool:
    """Whether the noise holds both no effect and a part of a range that promises one.

    It does not matter in which of them the measurement itself lies: that would count hits and drop misses.
    """
    least, _, most = measured
    return least <= 1 < predicted[0] - ALIKE and most >= predicted[0]
