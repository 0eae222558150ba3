"""The answer of `diagnose series`. Frozen; the reports are pure functions of it."""

import msgspec

from diagnose.diagnosis import Goodput
from diagnose.diagnosis.answer import Answer
from diagnose.series.change import Change
from diagnose.series.machine.findings import MachineBeside, MachineReport
from diagnose.series.not_told import NotTold
from diagnose.series.rank_times import RankTimes


class SuggestedCapture(msgspec.Struct, frozen=True, kw_only=True):
    """Steps to profile, or to look at, next.

    `command` is the line to type, "" if `files` already hold a trace of the steps. `first_step` counts as the log does;
    `diagnose run --at-step` counts from 1 at the start of the job, so `command` is one ahead of a log that counts from
    0.
    """

    first_step: int
    last_step: int
    why: str
    command: str = ""
    files: tuple[str, ...] = ()


class Periodic(msgspec.Struct, frozen=True, kw_only=True):
    """Steps that are slow every `every_steps` steps, such as those with a checkpoint or an evaluation.

    `extra_s` is the median excess of such a sample over its neighbours; `time_share` is of the time of all steps.
    """

    every_steps: int
    first_step: int
    count: int
    extra_s: float
    time_share: float
    says: str
    run: str = ""


_KNOWN = ("checkpoint", "evaluation")
_EXPLAINS = 0.5  # of what a stall costs


class Near(msgspec.Struct, frozen=True, kw_only=True):
    """Event that the log holds between the sample before a stall and the stall: a kind, and its words.

    `seconds` is the time that the words state, None if they state none.
    """

    kind: str
    text: str
    seconds: float | None = None


class Recurs(msgspec.Struct, frozen=True, kw_only=True):
    """Recurrence of a stall.

    `every_steps` as the log counts, and `every_optimizer_steps`, are None if it keeps no period; `times` is how often
    it does so in its run. `runs` of the `of_runs` runs of the job that came so far have a stall at the same step.
    """

    every_steps: int | None
    every_optimizer_steps: int | None
    times: int
    runs: int
    of_runs: int


class Stall(msgspec.Struct, frozen=True, kw_only=True):
    """A single slow sample, or a short burst of them.

    `step` to `last_step` count as the log does (some count samples), `optimizer_step` as `diagnose run --at-step` does.
    `time_s` is the time of the steps on a rank, `cost_s` the part of it beyond the running median around them,
    `run_share` that as a share of the time of all steps of the run, `gpu_hours` that on all GPUs that wait, None if
    their number is not known. `count` is 1, or how many slow steps of one period are put together: `step` is then the
    first of them, and times and costs are those of all. `recurs` is None if it came once. `machine` are readings of the
    machine during a single one, None if the source has no readings. `told_from_noise` is false if the job's other steps
    vary so much that it may be one of them.
    """

    step: int
    last_step: int
    optimizer_step: int
    time_s: float
    cost_s: float
    run_share: float
    gpu_hours: float | None
    recurs: Recurs | None
    near: tuple[Near, ...]
    ranks: tuple[int, ...]
    run: str
    job: str
    says: str
    count: int = 1
    machine: MachineBeside | None = None
    told_from_noise: bool = True

    @property
    def times(self) -> float:
        """Its time over that of the steps around."""
        return self.time_s / max(self.time_s - self.cost_s, 1e-9)

    @property
    def known_as(self) -> str:
        """The kind of event near it that explains it, "" if none does: a checkpoint, an evaluation, or half its time.

        One that states less than half of what the stall costs leaves the most of it open.
        """
        least = _EXPLAINS * self.cost_s / self.count
        for one in self.near:
            if one.seconds >= least if one.seconds is not None else one.kind in _KNOWN:
                return one.kind
        return ""


class RemedyOption(msgspec.Struct, frozen=True, kw_only=True):
    """A change, the least and the most times as fast as the whole run gets by it, and what it costs or depends on."""

    do: str
    gain: tuple[float, float]
    but: str


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """The changes that shorten the stalls of a kind, any one of them.

    `time_s` is what all `count` of them cost over the run, `run_share` that as a share of the wall time if the log has
    a clock, else of the time of all steps. `every_steps` are optimizer steps between two, None if not known.
    """

    kind: str
    every_steps: int | None
    count: int
    time_s: float
    run_share: float
    says: str
    options: tuple[RemedyOption, ...]


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """One run: `steps_s` is the time of all its steps on a rank, `stalls_share` the share of it that stalls cost.

    `name` is "" if there is one run only. `goodput` is None if the log has no clock.
    """

    name: str
    job: str
    gpus: int | None
    first_step: int
    last_step: int
    samples: int
    median_s: float
    steps_s: float
    stalls_share: float
    goodput: Goodput | None


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """The usual, the shortest and the longest samples of all ranks, in seconds of a step, without the warm-up.

    `longest_step` is that of `longest_s`, in the run `longest_run`; `slow` of the `samples` take at least twice the
    median, and `slow_extra_s` beyond it. `whole_s` is the time of all samples. These four are those of one track: the
    one with the longest sample.
    """

    median_s: float
    shortest_s: float
    p99_s: float
    longest_s: float
    longest_step: int
    longest_run: str
    samples: int
    slow: int
    slow_extra_s: float
    whole_s: float


class SeriesReport(Answer, frozen=True, kw_only=True):
    """The content of a report of step times.

    `shape` is the median step time of up to 60 equal stretches of samples, or the longest where one takes twice the
    usual, for a sparkline. `longest` are the steps of five times those around and more that no stall holds. `goodput`
    is that of all runs together. `machine` are its readings over the run, None if the source has no readings. `spread`
    is None without samples. `listed` are step and seconds of each sample if there are too few to judge. `rank_times`
    are what the ranks take for work of their own, if the log has it.
    """

    on_one_line = None
    schema_version: int = 1
    kind: str
    files: tuple[str, ...]
    unit: str
    first_step: int
    last_step: int
    samples: int
    tracks: int
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    median_s: float | None
    changes: tuple[Change, ...]
    periodic: tuple[Periodic, ...]
    look: tuple[SuggestedCapture, ...]
    notes: tuple[str, ...]
    not_told: NotTold | None
    shape: tuple[float, ...]
    stalls: tuple[Stall, ...] = ()
    longest: tuple[Stall, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    runs: tuple[RunReport, ...] = ()
    goodput: Goodput | None = None
    goodput_not_told: NotTold | None = None
    machine: MachineReport | None = None
    spread: Spread | None = None
    listed: tuple[tuple[int, float], ...] = ()
    rank_times: tuple[RankTimes, ...] = ()
