"""Factors of speed on a logarithmic axis, which holds 1.0x."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from diagnose.report.views.gains import factor

_MARGIN = 1.06  # beyond the outermost factor, so that no mark is cut
_TICKS = 4


@dataclass(frozen=True)
class FactorAxis:
    """The axis begins at factor `low` and ends at `high`."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """The place of the factor in percent of the axis."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return 100 * min(max(share, 0.0), 1.0)

    @property
    def ticks(self) -> list[str]:
        """Labels at equal distances, from end to end."""
        steps = (self.low * (self.high / self.low) ** (i / (_TICKS - 1)) for i in range(_TICKS))
        return [f"{factor(step, fine=True)}x" for step in steps]


@dataclass(frozen=True)
class FactorMark:
    """A range with a value in it, in percent of the axis; `value` is None if none is more likely than the others."""

    low: float
    high: float
    value: float | None

    @property
    def width(self) -> float:
        """The distance of `low` and `high`."""
        return self.high - self.low


def axis_of(factors: Iterable[float]) -> FactorAxis:
    """The axis that holds these factors and 1.0x."""
    known = [1.0, *(value for value in factors if value > 0 and math.isfinite(value))]
    return FactorAxis(min(known) / _MARGIN, max(known) * _MARGIN)


def mark(axis: FactorAxis, low: float, high: float | None, value: float | None = None) -> FactorMark:
    """The range on the axis; one without a high end reaches the end of the axis."""
    ends = axis.at(low), 100.0 if high is None else axis.at(high)
    return FactorMark(*ends, None if value is None else axis.at(value))
