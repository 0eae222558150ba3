"""Results for a job of several ranks beyond its ledger; part of the Diagnosis, and as frozen as it is."""

from typing import Literal

import msgspec

from diagnose.probes.protocol import STEPS_OF_RANKS

LatenessCause = Literal["data", "host", "slower_kernels", "more_work", "gc", "checkpoint", "cores", "link", "unknown"]
Persistence = Literal["persistent", "transient", "suspected"]
AloneWork = Literal["saving", "evaluating", "none"]
HostCode = Literal["more", "slower", "unknown", "none"]
NO_STRAGGLER = "no straggler"
NO_DATA_WAIT = "no data wait"
FEW_STEPS = 3  # in so few, only a large effect names a rank


class Excess(msgspec.Struct, frozen=True, kw_only=True):
    """The time that a late rank spent on one cause beyond the other ranks, in nanoseconds per step."""

    cause: str
    ns: int


class Straggler(msgspec.Struct, frozen=True, kw_only=True):
    """A rank that the others wait for.

    Attributes:
        rank: its number in the job.
        host: the machine it runs on, "" if not recorded.
        cause: what made it late.
        because: one sentence with the numbers the cause rests on.
        waiting_ns_caused: sum over the other ranks and the counted steps.
        share: the part of the other ranks' steps that they wait for it. Some of it would remain if the rank were
            punctual, where other ranks are nearly as late or pipeline stages wait for each other; the job's gain is in
            `changes`.
        steps_late: counted steps in which it caused most of the waiting.
        of_steps: counted steps that were judged.
        persistence: whether it is late all the time; "suspected" if the steps are too few to know.
        suspected: whether it is only suspected, because the steps are too few to show what is always so.
        host_code: for a rank that its host makes late, whether it runs more code than the others or the same code
            slower; "none" if something else makes it late.
        where: the function, range or operator that accounts for most of it, "" if none is known.
        alone: what it does and none of the others, who wait meanwhile; "none" if nothing of the kind is seen.
        waiting_share: of all the waiting of the ranks for each other, what it causes.
        last_at: matched collectives of the judged steps at which it arrived last.
        of_collectives: the number of those that it took part in.
        excess: the time it spent beyond the others by cause, largest first.
        explained_share: part of its lateness that the excess accounts for, null when that is unknown.
        first_diverging: the first operation of the step that ran unlike the other ranks', "" when none was found.
        gpu_hours_per_day: GPU-hours that the job loses by it in a day of training, at least; null without GPUs.
        cost_per_day: the same in the currency of the stated price of a GPU-hour; null without a price.
    """

    rank: int
    cause: LatenessCause
    waiting_ns_caused: int
    host: str = ""
    because: str = ""
    share: float = 0.0
    steps_late: int = 0
    of_steps: int = 0
    persistence: Persistence = "persistent"
    suspected: bool = False
    excess: tuple[Excess, ...] = ()
    explained_share: float | None = None
    first_diverging: str = ""
    gpu_hours_per_day: float | None = None
    cost_per_day: float | None = None
    host_code: HostCode = "none"
    where: str = ""
    alone: AloneWork = "none"
    waiting_share: float | None = None
    last_at: int = 0
    of_collectives: int = 0

    @property
    def untold(self) -> str:
        """The reason why its steps leave open whether it is always late: there are few, or they differ."""
        return "too few steps" if self.of_steps <= FEW_STEPS else "steps too unlike"

    @property
    def steps_to_tell(self) -> int:
        """How many steps to record of every rank, to see whether it is always late."""
        return max(STEPS_OF_RANKS, 3 * self.of_steps)


class Clock(msgspec.Struct, frozen=True, kw_only=True):
    """The offset of a rank's clock from the first rank's: add `offset_ns` to its times; drift in parts per million.

    `residual_ns` is the median distance of the aligned ends of shared collectives; null if none is shared.
    """

    rank: int
    offset_ns: int | None
    drift_ppm: float | None
    residual_ns: int | None


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """Ranks that disagree on their collectives, by count, size or kind at the same place, or on the clock of a host."""

    kind: Literal["count", "size", "kind", "missing", "clock"]
    group: str
    ranks: tuple[int, ...]
    says: str


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """Collectives of one kind, group and message size over the counted steps.

    `bytes`, `algbw_gbs`, `busbw_gbs` (GB/s) and `expected_busbw_gbs` (of the size curve for this topology) are null if
    sizes or the topology are unknown; times are per collective, medians. `exposed_share` is the share of the ranks'
    steps in exposed communication, both transfer and waiting. The waiting alone is `exposed_waiting_share`, null if the
    ranks could not be matched or some of the group have no trace.
    """

    kind: str
    group: str
    ranks: int
    bytes: int | None
    count_per_step: float
    transfer_ns: int
    waiting_ns: int
    exposed_share: float
    exposed_waiting_share: float | None = None
    algbw_gbs: float | None = None
    busbw_gbs: float | None = None
    expected_busbw_gbs: float | None = None
    note: str = ""


class SlowGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A process group whose collectives take longer than the same ones of other groups, by `ns_per_step` in a step.

    It changes who is waited for, though none of its ranks is late by it; `because` has the numbers.
    """

    ranks: tuple[int, ...]
    ns_per_step: int
    because: str


class JobChange(msgspec.Struct, frozen=True, kw_only=True):
    """The job's predicted gain by a change, from the joint replay of all ranks.

    `speedup` is [low, high]; null if the replay does not show it, and `because` is why. `gpu_hours_per_day` is what
    late ranks cost at least, null if that is not known.
    """

    change: str
    says: str
    speedup: tuple[float, float] | None
    because: str = ""
    gpu_hours_per_day: float | None = None


class PipelineStage(msgspec.Struct, frozen=True, kw_only=True):
    """A stage of a pipeline.

    Attributes:
        stage: its number, from 0, in the order in which a batch passes them.
        ranks: its ranks.
        work_ns: nanoseconds that one of them works, without communication, on what `per` names.
        per: a step, where the messages do not show its micro-batches.
        heavier: how much more work it has than the other stages, and what equal ones would move; "" if it has no more.
    """

    stage: int
    ranks: tuple[int, ...]
    work_ns: int
    per: Literal["micro-batch", "step"]
    heavier: str = ""


class Postmortem(msgspec.Struct, frozen=True, kw_only=True):
    """The joined ranks.

    Attributes:
        matched: collectives that could be matched across ranks, all instances.
        missing_ranks: ranks of the job without a trace.
        clocks: of each rank against the first.
        clocks_agree: whether waiting by start times, on aligned clocks, agrees with waiting by durations; null if the
            clocks could not be aligned well enough.
        mismatches: calls or settings that differ between the ranks.
        traffic: collectives by kind, group and size, those with most exposed time first.
        changes: what-ifs of the whole job that gain 0.5 % or more at best, and the cure of late ranks in any case.
        changes_error: largest distance of the joint replay, unchanged, from a rank's measured step, of that step; null
            when the ranks could not be replayed together.
        no_changes_because: the reason why nothing is predicted, "" if something is.
        measured_ranks: ranks on which the rules were judged; all of a small job.
        passing: ranks that delayed `steps_late` single steps and are not named as stragglers.
        suspected: the rank that causes most of the waiting, if the steps are too few to name it.
        slow_links: process groups that take longer than others by 1 % of the step or more, and make no rank late.
        stages: the stages of a pipeline; empty without one.
    """

    matched: int = 0
    missing_ranks: tuple[int, ...] = ()
    clocks: tuple[Clock, ...] = ()
    clocks_agree: bool | None = None
    mismatches: tuple[Mismatch, ...] = ()
    traffic: tuple[Traffic, ...] = ()
    changes: tuple[JobChange, ...] = ()
    changes_error: float | None = None
    no_changes_because: str = ""
    measured_ranks: tuple[int, ...] = ()
    passing: tuple[Straggler, ...] = ()
    suspected: tuple[Straggler, ...] = ()
    slow_links: tuple[SlowGroup, ...] = ()
    stages: tuple[PipelineStage, ...] = ()
