"""The likely value of a predicted gain: where in such ranges the gains of real changes came to lie, in the middle."""

import tomllib
from functools import lru_cache
from math import exp, log
from pathlib import Path
from typing import Literal

import msgspec

from diagnose.diagnosis.terms import Speedup

DeviceKind = Literal["cpu", "gpu"]
_TABLE = Path(__file__).parents[1] / "data" / "likely.toml"


class Position(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A position in the logarithm of a range, 0 at its low end, and the real changes that it rests on."""

    position: float
    pairs: int
    where: str


@lru_cache(maxsize=1)
def positions() -> dict[DeviceKind, Position]:
    """The position for each kind of device."""
    return msgspec.convert(tomllib.loads(_TABLE.read_text(encoding="utf-8")), dict[DeviceKind, Position])


def likely(gain: Speedup | None, kind: DeviceKind) -> float | None:
    """The likely value within the range; None if an end is open."""
    if gain is None or gain[1] is None or gain[0] <= 0:
        return None
    at = positions()[kind].position
    return exp((1 - at) * log(gain[0]) + at * log(gain[1]))
