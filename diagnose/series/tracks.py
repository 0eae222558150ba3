"""Step times in order: one track for each rank of a run that logs, and what was set right to get there."""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from diagnose.arrays import Floats, Ints
from diagnose.facts import Unknown
from diagnose.series.machine.readings import MachineReadings

ARMED = "armed"
"""The kind of a series of the step logs of an armed run."""


class Track(msgspec.Struct, frozen=True):
    """The step times of one rank, or of the job if the source does not distinguish ranks.

    Attributes:
        rank: the rank, None if the source names none.
        host: the host or node, "" if the source names none.
        step: the last step that each sample covers, shape (n,), increasing.
        seconds: time of one step, shape (n,), positive and finite.
        covers: median number of steps that a sample covers.
        parts: seconds per step of "compute", "wait" and "data" if the source has them, shape (n,), NaN for missing.
        files: the file of each sample if they differ, shape (n,), as positions in `Series.files`.
        run: the run, "" if the source holds only one.
        counts_per_step: the log's counts in one optimizer step: the samples of a batch if it counts samples, else 1.
        rows: the row of the log that each sample ends with, shape (n,), if the source has rows.
        by_clock: whether the times are differences of a clock, and so of one count of the log.
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
    by_clock: bool = False

    def counting(self, counts: float) -> "Track":
        """The track of a log with so many counts in an optimizer step: times are of one such step."""
        return replace(self, counts_per_step=counts, seconds=self.seconds * counts if self.by_clock else self.seconds)

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


class LogEvent(msgspec.Struct, frozen=True):
    """An event in a log that is not a step: its kind (`log_events.KINDS`), its words, and its time.

    Attributes:
        kind: its kind.
        text: the line, or the cell's words.
        row: number of rows of steps before it.
        clock_s: time in seconds, None if the line has no clock.
        seconds: how long it took, as the line says; None if it does not.
    """

    kind: str
    text: str
    row: int
    clock_s: float | None = None
    seconds: float | None = None


class LoggedSteps(msgspec.Struct, frozen=True):
    """The rows of one rank as they were logged, restarts and all, shape (n,) each; NaN for missing.

    Attributes:
        row: their places in the log, increasing; `LogEvent.row` and `Track.rows` count in the same way.
        step: the steps as the log counts them.
        clock_s: time in seconds at which the row was logged.
        duration_s: seconds of one step, if the log states it.
    """

    row: Ints
    step: Floats
    clock_s: Floats
    duration_s: Floats


class LoggedRun(msgspec.Struct, frozen=True):
    """One run of a job: its name and its job's, its number of GPUs if known, and its log.

    Attributes:
        name: "" if the source holds only one run; equal to `Track.run`.
        job: runs of the same job are compared; "" if nothing distinguishes jobs.
        gpus: number of GPUs; None if unknown.
        log: the rows of its first rank.
        events: events between the rows, in order.
    """

    name: str = ""
    job: str = ""
    gpus: int | None = None
    log: LoggedSteps | None = None
    events: tuple[LogEvent, ...] = ()


class Series(msgspec.Struct, frozen=True):
    """The step times of a job from one source.

    Attributes:
        kind: "csv", "jsonl", "text", "tensorboard", "trainer_state", "capture", "windows" or ARMED.
        files: the files read.
        unit: how the times were read, such as "step_time_ms, in milliseconds".
        tracks: one for each rank, by rank and host; empty if `unknown` is set.
        restarts: steps at which the job was resumed.
        notes: omissions and corrections, one sentence each.
        unknown: why there are no step times.
        runs: the runs that the tracks belong to; empty if the source has neither rows nor several runs.
        machines: the ranks' readings of their machines; None if such a source cannot hold any.
        written_by: the program that wrote the log, "" if the log does not show it.
    """

    kind: str
    files: tuple[str, ...]
    unit: str
    tracks: tuple[Track, ...]
    restarts: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    unknown: Unknown | None = None
    runs: tuple[LoggedRun, ...] = ()
    machines: tuple[MachineReadings, ...] | None = None
    written_by: str = ""
