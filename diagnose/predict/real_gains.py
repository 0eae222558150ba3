"""The range and likely value of a gain: where between worst and best case the gains of real changes came to lie.

What is not known about a change is rarely all bad at once, so that the worst case lies below what nearly all gained.
"""

import tomllib
from functools import lru_cache
from math import exp, log
from pathlib import Path
from typing import Literal

import msgspec

from diagnose.diagnosis.terms import Speedup

DeviceKind = Literal["cpu", "gpu"]
_TABLE = Path(__file__).parents[1] / "data" / "positions.toml"


class Positions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Positions in the logarithm of a range, 0 in the worst case and 1 in the best, and the real changes behind them.

    Attributes:
        low: of the low end that is promised: eight in ten gains lie between it and the best case; 0 if too few changes
            were measured.
        likely: of the likely value.
        pairs: of runs with and without a change.
        where: the machines they ran on.
    """

    low: float
    likely: float
    pairs: int
    where: str


@lru_cache(maxsize=1)
def positions() -> dict[DeviceKind, Positions]:
    """The positions for each kind of device."""
    return msgspec.convert(tomllib.loads(_TABLE.read_text(encoding="utf-8")), dict[DeviceKind, Positions])


def narrowed(cases: Speedup | None, kind: DeviceKind) -> Speedup | None:
    """The range in which real changes with such a worst and best case came to lie.

    What may gain nothing in its worst case still may, and a lower bound stays one.
    """
    if cases is None or cases[1] is None or cases[0] <= 1:
        return cases
    return _at(cases, positions()[kind].low), cases[1]


def worst_told(cases: Speedup) -> str:
    """The worst case in words, behind a low end above it."""
    return f"if all of it turns out badly the gain is {cases[0]:.2f}x; eight in ten real changes lie in the range"


def likely(cases: Speedup | None, kind: DeviceKind) -> float | None:
    """The likely value between the cases; None if an end is open."""
    if cases is None or cases[1] is None or cases[0] <= 0:
        return None
    return _at(cases, positions()[kind].likely)


def _at(cases: Speedup, position: float) -> float:
    return exp((1 - position) * log(cases[0]) + position * log(cases[1] or cases[0]))
