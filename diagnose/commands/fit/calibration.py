"""How far measured runs support a predicted step: its range, and what of the job was never measured."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Calibration:
    """The range of a predicted step and where it is from.

    Four in five measured runs lay within such a range: one in ten was faster, and one in ten slower.

    Attributes:
        low_s: seconds of the step when it goes well.
        likely_s: seconds to expect.
        high_s: seconds when it goes badly.
        rows: measured runs of the same stack that were like this one: same board, kind of sharding, and sizes between
            the smallest and the largest measured.
        factors: by what the range is wider because something was never measured; empty where nothing was.
        because: a clause for each of `factors`.
    """

    low_s: float
    likely_s: float
    high_s: float
    rows: int
    factors: Mapping[str, float]
    because: tuple[str, ...]

    @property
    def says(self) -> str:
        """Text of what the range rests on."""
        if self.because:
            return f"not calibrated: {'; '.join(self.because)}"
        return f"calibrated on {self.rows} {'row' if self.rows == 1 else 'rows'} like this"

    @property
    def width(self) -> float:
        """The slow end over the fast one."""
        return self.high_s / self.low_s
