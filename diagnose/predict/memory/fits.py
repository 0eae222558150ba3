"""Whether a job fits its GPU: yes, tight or no, by the range that its memory estimate leaves."""

from dataclasses import dataclass
from typing import Literal

FitsAnswer = Literal["yes", "tight", "no"]


@dataclass(frozen=True)
class Fits:
    """Memory of a job against that of its GPU.

    Attributes:
        likely_bytes: what the ledger counts.
        low_bytes: the least that such jobs take.
        high_bytes: the most.
        capacity_bytes: memory of the GPU.
        because: the measured rows that the range is taken from, or why there are none ("not calibrated: ...").
    """

    likely_bytes: int
    low_bytes: int
    high_bytes: int
    capacity_bytes: int
    because: str

    @property
    def answer(self) -> FitsAnswer:
        """Whether the range lies within the GPU's memory, across its edge, or beyond."""
        if self.low_bytes > self.capacity_bytes:
            return "no"
        return "yes" if self.high_bytes <= self.capacity_bytes else "tight"

    @property
    def runs(self) -> bool:
        """Whether the job is expected to run: the answer is yes or tight."""
        return self.answer != "no"

    @property
    def margin_bytes(self) -> int:
        """Memory of the GPU beyond what is likely; negative where the job lacks some."""
        return self.capacity_bytes - self.likely_bytes

    @property
    def uncertainty_bytes(self) -> tuple[int, int]:
        """The margin if the job takes the most, and if it takes the least."""
        return self.capacity_bytes - self.high_bytes, self.capacity_bytes - self.low_bytes
