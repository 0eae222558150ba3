"""The likely value of a gain: where between worst and best case the gains of real changes came to lie."""

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
    """A position in the logarithm of a range, 0 in the worst case and 1 in the best, and the real changes behind it.

    Attributes:
        likely: of the likely value.
        pairs: of runs with and without a change.
        where: the machines they ran on.
    """

    likely: float
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
    position = positions()[kind].likely
    return exp((1 - position) * log(cases[0]) + position * log(cases[1]))
