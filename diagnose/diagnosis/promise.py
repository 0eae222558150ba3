"""Whether a prediction was kept: the one judgement of `run --apply`, `compare`, `tune` and the ledger.

A measured speed says something about a prediction only where the change cured what it was advised for, and where
nothing else that makes steps faster or slower changed beside it.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import msgspec

from diagnose.diagnosis.terms import Estimate, Speedup
from diagnose.facts import Scalar, spoken

ALIKE = 0.005  # printed factors that differ by less look equal
MOVED = 0.1  # of the value before: an evidence that changes by less is not cured
OF_CORES = ("core_wait_share", "others_cpu_share")
CONFOUNDERS = {**dict.fromkeys(OF_CORES, "share"), "gpu_clock_mhz": "mhz", "gpu_processes": "count"}
"""Facts of the machine that make steps faster or slower whatever the job changes, with their units."""
_DISTURBS = 0.1  # of a share of the machine, of its clock, or of the processes on it
_LEAST_SHARE = 0.005  # a smaller difference of two shares is none
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
    undisturbed = measured[1] * _slowed(disturbed)
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


def machine_between(
    before: Mapping[str, Scalar], after: Mapping[str, Scalar], cured: Collection[str] = ()
) -> tuple[Change, ...]:
    """The confounders that both runs know, without the facts that the change is to cure."""
    return changes(before, after, {name: unit for name, unit in CONFOUNDERS.items() if name not in cured})


def changes(before: Mapping[str, Scalar], after: Mapping[str, Scalar], units: Mapping[str, str]) -> tuple[Change, ...]:
    """The facts with these units that both runs know, before and after."""
    pairs = {name: (one, after[name]) for name in units if (one := before.get(name)) is not None and name in after}
    return tuple(
        Change(name=name, unit=units[name], before=one, after=other, moved=has_moved(name, units[name], one, other))
        for name, (one, other) in pairs.items()
    )


def has_moved(name: str, unit: str, before: Scalar, after: Scalar) -> bool:
    """Whether the two values of a fact differ by so much that a judgement has to take note of it."""
    if isinstance(before, str | bool) or isinstance(after, str | bool):
        return before != after
    apart = abs(after - before)
    if name in CONFOUNDERS:
        return apart > (_DISTURBS if unit == "share" else _DISTURBS * before)
    return apart > max(MOVED * abs(before), _LEAST_SHARE if unit == "share" else 0.0)


def standing_of(measured: float, predicted: Speedup) -> Standing:
    """Whether a measured speed is less than, as, or more than predicted."""
    low, high = predicted
    if measured < low - ALIKE:
        return "less"
    return "more" if high is not None and measured > high + ALIKE else "as"


def _slowed(confounders: Sequence[Change]) -> float:
    """How many times as fast the machine was before as with the change.

    Waiting for cores and what other processes take of them are two measures of one time: the larger change counts.
    """
    each = {change.name: _faster(change) for change in confounders}
    of_cores = [each.pop(name) for name in OF_CORES if name in each]
    return math.prod(each.values()) * max(of_cores, key=lambda factor: abs(math.log(factor)), default=1.0)


def _faster(confounder: Change) -> float:
    """The same by one fact: the share of its time that the machine lost, the processes that share it, or its clock."""
    before, after = float(confounder.before), float(confounder.after)
    one, other = (1 - before, 1 - after) if confounder.unit == "share" else (before, after)
    if confounder.unit == "count":
        one, other = after, before
    return one / other if one > 0 and other > 0 else 1.0


def _shows_nothing(measured: Estimate, predicted: Speedup) -> bool:
    """Whether the noise holds both no effect and a part of a range that promises one.

    It does not matter in which of them the measurement itself lies: that would count hits and drop misses.
    """
    least, _, most = measured
    return least <= 1 < predicted[0] - ALIKE and most >= predicted[0]
