"""Step times in order: one track for each rank that logs, and what was set right to get there."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from diagnose.arrays import Floats, Ints
from diagnose.facts import Unknown


@dataclass(frozen=True)
class Track:
    """The step times of one rank, or of the job where the source does not tell ranks apart.

    Attributes:
        rank: the rank, None when the source names none.
        host: the host or node, "" when the source names none.
        step: the last step that each sample covers, shape (n,), increasing.
        seconds: time of one step, shape (n,), positive and finite.
        covers: steps that a sample covers, as the median.
        parts: seconds per step of "compute", "wait" and "data" where the source has them, shape (n,), NaN for missing.
        files: the file of each sample where they differ, shape (n,), as positions in `Series.files`.
    """

    rank: int | None
    host: str
    step: Ints
    seconds: Floats
    covers: float = 1.0
    parts: Mapping[str, Floats] = field(default_factory=dict)
    files: Ints | None = None

    def __len__(self) -> int:
        return len(self.step)


@dataclass(frozen=True)
class Series:
    """What one source tells of the step times of a job.

    Attributes:
        kind: "csv", "jsonl", "trainer_state", "capture" or "windows".
        files: the files read.
        unit: how the times were read, such as "step_time_ms, in milliseconds".
        tracks: one for each rank, by rank and host; empty when `unknown` says why.
        restarts: steps at which the job was resumed.
        notes: what was left out or set right, one sentence each.
        unknown: why no step times could be had.
    """

    kind: str
    files: tuple[str, ...]
    unit: str
    tracks: tuple[Track, ...]
    restarts: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    unknown: Unknown | None = None
