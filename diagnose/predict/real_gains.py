"""The likely value and the usual range of a gain: where between the cases the gains of real changes came to lie."""

import tomllib
from functools import lru_cache
from math import exp, log
from pathlib import Path
from typing import Literal

import msgspec

from diagnose.diagnosis.terms import Speedup, gains_surely

DeviceKind = Literal["cpu", "gpu"]
_TABLE = Path(__file__).parents[1] / "data" / "positions.toml"


class Positions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where real gains lie, by positions in the logarithm of the range: 0 in the worst case and 1 in the best.

    Attributes:
        low: the position of the usual range's low end.
        likely: that of the likely value.
        beyond: the factor on the best case that gives the high end. Eight in ten real gains lie between both ends, and
            no other two hold as many with less median width.
        pairs: of runs with and without a change.
        where: the machines they ran on.
    """

    low: float
    likely: float
    beyond: float
    pairs: int
    where: str


@lru_cache(maxsize=1)
def positions() -> dict[DeviceKind, Positions]:
    """The positions for each kind of device."""
    return msgspec.convert(tomllib.loads(_TABLE.read_text(encoding="utf-8")), dict[DeviceKind, Positions])


def likely(cases: Speedup | None, kind: DeviceKind) -> float | None:
    """The likely value between the cases; None if an end is open."""
    if cases is None or cases[1] is None or cases[0] <= 0:
        return None
    return _at(cases[0], cases[1], positions()[kind].likely)


def usual(cases: Speedup | None, kind: DeviceKind) -> Speedup | None:
    """Where most real gains lie; None if an end is open, or the worst case gains nothing."""
    return usual_by(cases, positions()[kind].low, positions()[kind].beyond)


def usual_by(cases: Speedup | None, low: float, beyond: float) -> Speedup | None:
    """The same by the position of the low end and the factor on the best case.

    Too few real changes are known that may gain nothing to say how often they do.
    """
    if cases is None or cases[1] is None or not gains_surely(cases):
        return None
    return _at(cases[0], cases[1], low), beyond * cases[1]


def _at(worst: float, best: float, position: float) -> float:
    return exp((1 - position) * log(worst) + position * log(best))
