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
    """Positions in the logarithm of a range, 0 in the worst case and 1 in the best, and the real changes behind them.

    Attributes:
        low: one real gain in ten lies below.
        likely: of the likely value.
        high: one real gain in ten lies above, but for those beyond the best case.
        pairs: of runs with and without a change.
        where: the machines they ran on.
    """

    low: float
    likely: float
    high: float
    pairs: int
    where: str


@lru_cache(maxsize=1)
def positions() -> dict[DeviceKind, Positions]:
    """The positions for each kind of device."""
    return msgspec.convert(tomllib.loads(_TABLE.read_text(encoding="utf-8")), dict[DeviceKind, Positions])


def likely(cases: Speedup | None, kind: DeviceKind) -> float | None:
    """The likely value between the cases; None if an end is open."""
    return None if cases is None or cases[1] is None else _at(cases[0], cases[1], positions()[kind].likely)


def usual(cases: Speedup | None, kind: DeviceKind) -> Speedup | None:
    """Where eight in ten gains lie between the cases; None if an end is open, or the worst case gains nothing.

    No real change is known for which the worst case is no gain and that then gained nothing, so nothing says how often.
    """
    if cases is None or cases[1] is None or not gains_surely(cases):
        return None
    low, high = (_at(cases[0], cases[1], position) for position in (positions()[kind].low, positions()[kind].high))
    return None if low is None or high is None else (low, high)


def _at(worst: float, best: float, position: float) -> float | None:
    return exp((1 - position) * log(worst) + position * log(best)) if worst > 0 else None
