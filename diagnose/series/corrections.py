"""Corrections made on the way from a log to its tracks."""

import msgspec


class Corrections(msgspec.Struct):
    """Corrections to a log."""

    restarts: set[int] = msgspec.field(default_factory=set)
    unusable: int = 0
    repeated: int = 0
    sorted: bool = False
    merged: bool = False
    thinned: int = 1

    def notes(self) -> list[str]:
        """One sentence each."""
        told = []
        if self.restarts:
            steps = ", ".join(f"{step:,}" for step in sorted(self.restarts)[:6])
            told.append(f"the job was resumed at step {steps}; steps trained twice count as trained last")
        if self.repeated:
            told.append(f"{self.repeated:,} rows repeat a step or were superseded after a resume, and are left out")
        if self.unusable:
            told.append(f"{self.unusable:,} rows have no step or no positive time and are left out")
        if self.sorted:
            told.append("the rows were not in the order of their steps and were sorted")
        if self.merged:
            told.append("several rows per step and no rank: the median of each step is used")
        if self.thinned > 1:
            told.append(f"the clock is coarse: {self.thinned} rows are taken together")
        return told

    def joined(self, other: "Corrections") -> "Corrections":
        """Both together."""
        return Corrections(
            self.restarts | other.restarts,
            self.unusable + other.unusable,
            self.repeated + other.repeated,
            self.sorted or other.sorted,
            self.merged or other.merged,
            max(self.thinned, other.thinned),
        )
