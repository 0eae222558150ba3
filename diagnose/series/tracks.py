"""Step times in order: one track for each rank of a run that logs, and what was set right to get there."""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from diagnose.arrays import Floats, Ints
from diagnose.facts import Unknown
from diagnose.series.machine.readings import MachineReadings


class Track(msgspec.Struct, frozen=True):
    """The step times of one rank, or of the job where the source does not tell ranks apart.

    Attributes:
        rank: the rank, None when the source names none.
        host: the host or node, "" when the source names none.
        step: the last step that each sample covers, shape (n,), increasing.
        seconds: time of one step, shape (n,), positive and finite.
        covers: steps that a sample covers, as the median.
        parts: seconds per step of "compute", "wait" and "data" where the source has them, shape (n,), NaN for missing.
        files: the file of each sample where they differ, shape (n,), as positions in `Series.files`.
        run: the run, "" if the source holds one only.
        counts_per_step: what the log counts in one optimizer step: the samples of a batch where it counts samples,
            else 1.
        rows: the row of the log that each sample ends with, shape (n,), where the source has rows.
    """

    rank: int | None
    host: str
    step: Ints
    seconds: Floats
    covers: float = 1.0
    parts: Mapping[str, Floats] = msgspec.field(default_factory=dict)
    files: Ints | None = None
    run: str = ""
    counts_per_step: float = 1.0
    rows: Ints | None = None

    @property
    def steps_each(self) -> float:
        """Optimizer steps that a sample stands for."""
        return max(self.covers / self.counts_per_step, 1.0)

    def optimizer_step(self, step: int) -> int:
        """The optimizer step, from 1, of a step as the log counts it: what `--at-step` takes."""
        from_zero = len(self) > 0 and round(self.step[0] - self.covers + 1) == 0
        return -(-step // round(self.counts_per_step)) + from_zero

    def part(self, rows: Ints) -> "Track":
        """The samples at `rows` alone."""
        return replace(
            self,
            step=self.step[rows],
            seconds=self.seconds[rows],
            parts={name: values[rows] for name, values in self.parts.items()},
            files=None if self.files is None else self.files[rows],
            rows=None if self.rows is None else self.rows[rows],
        )

    def __len__(self) -> int:
        return len(self.step)


class Event(msgspec.Struct, frozen=True):
    """Something else than a step that a log tells: its kind (`log_events.KINDS`), its words, and when it was.

    Attributes:
        kind: what it is.
        text: the line, or what tells it.
        row: rows of steps before it.
        clock_s: seconds, None if the line has no clock.
    """

    kind: str
    text: str
    row: int
    clock_s: float | None = None


class StepLog(msgspec.Struct, frozen=True):
    """The rows of one rank as they were logged, restarts and all, shape (n,) each; NaN for missing.

    Attributes:
        row: their places in the log, increasing; `Event.row` and `Track.rows` count alike.
        step: as the log counts.
        clock_s: seconds when the row was logged.
        duration_s: seconds of one step, where the log states it.
    """

    row: Ints
    step: Floats
    clock_s: Floats
    duration_s: Floats


class Run(msgspec.Struct, frozen=True):
    """One run of a job: its name and its job's, how many GPUs it has where that is known, and what was logged.

    Attributes:
        name: "" if the source holds one run only; `Track.run` says the same.
        job: runs of the same job are compared; "" if nothing tells jobs apart.
        gpus: None if nothing tells.
        log: the rows of its first rank.
        events: what happened between the rows, in order.
    """

    name: str = ""
    job: str = ""
    gpus: int | None = None
    log: StepLog | None = None
    events: tuple[Event, ...] = ()


class Series(msgspec.Struct, frozen=True):
    """What one source tells of the step times of a job.

    Attributes:
        kind: "csv", "jsonl", "text", "tensorboard", "trainer_state", "capture" or "windows".
        files: the files read.
        unit: how the times were read, such as "step_time_ms, in milliseconds".
        tracks: one for each rank, by rank and host; empty when `unknown` says why.
        restarts: steps at which the job was resumed.
        notes: what was left out or set right, one sentence each.
        unknown: why no step times could be had.
        runs: the runs that the tracks are of; empty if the source has neither rows nor several runs.
        machines: what the ranks read of their machines; None if the source is none that could hold it.
    """

    kind: str
    files: tuple[str, ...]
    unit: str
    tracks: tuple[Track, ...]
    restarts: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    unknown: Unknown | None = None
    runs: tuple[Run, ...] = ()
    machines: tuple[MachineReadings, ...] | None = None
