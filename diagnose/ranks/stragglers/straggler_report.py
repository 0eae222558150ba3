"""The named ranks as the Diagnosis holds them, and the ranks that cannot be named."""

from collections.abc import Sequence

from msgspec.structs import replace

from diagnose import intervals as iv
from diagnose.diagnosis.postmortem import NO_STRAGGLER, Straggler
from diagnose.facts import Unknown, analysis_option, spoken
from diagnose.formulas import share
from diagnose.ranks.job import Job
from diagnose.ranks.missing import missing_ranks
from diagnose.ranks.replay.changes import Changes
from diagnose.ranks.stragglers.causes import RankLateness
from diagnose.ranks.stragglers.divergence import first_diverging
from diagnose.ranks.stragglers.evidence import MIN_SHARE, PERSISTENT
from diagnose.ranks.stragglers.lateness import NOBODY
from diagnose.ranks.stragglers.settings import settings_unlike
from diagnose.timeline import Timeline

HOURS_PER_DAY = 24


def stragglers_of(
    job: Job, timelines: Sequence[Timeline] = (), gpu_hour_price: float | None = None
) -> tuple[Straggler, ...]:
    """The ranks that stand out, worst first.

    Args:
        job: the joined ranks.
        timelines: timelines of the ranks that were measured in full; the first diverging operation is given for these
            only.
        gpu_hour_price: price in any currency.
    """
    return tuple(_straggler(late_rank, job, timelines, gpu_hour_price) for late_rank in job.stragglers)


def _straggler(late_rank: RankLateness, job: Job, timelines: Sequence[Timeline], hour_price: float | None) -> Straggler:
    rank = next(rank for rank in job.ranks if rank.rank == late_rank.rank)
    hours = _gpu_hours_per_day(late_rank, job) if rank.has_gpu and late_rank.persistence == "persistent" else None
    late = {late_rank.rank for late_rank in job.lateness if late_rank.stands_out or late_rank.steps}
    return replace(
        Straggler(**{name: getattr(late_rank, name) for name in Straggler.__struct_fields__}),
        host=rank.host,
        suspected=late_rank.persistence == "suspected",
        because=_because(late_rank, job),
        first_diverging=first_diverging(late_rank, _beside(late_rank, job, timelines), late),
        gpu_hours_per_day=hours,
        cost_per_day=hours * hour_price if hours is not None and hour_price is not None else None,
    )


def _gpu_hours_per_day(late_rank: RankLateness, job: Job) -> float | None:
    """GPU-hours per day that the job loses by this rank: its part, by waiting caused, of the loss by all late ranks.

    The loss is replayed if possible, since the waiting for one rank is not all saved if the next is nearly as late.
    Else it is the waiting. It is None if the ranks wait for each other anyway, as stages do.
    """
    if job.view.cure_untold:
        wait_anyway = job.view.straggler_cure_share[0] <= 0
        return None if wait_anyway else late_rank.lost_share * (len(job.ranks) - 1) * HOURS_PER_DAY
    cure = job.changes.of(NO_STRAGGLER)
    lost = None if cure is None else cure.gpu_hours_per_day
    part = share(late_rank.waiting_ns_caused, sum(straggler.waiting_ns_caused for straggler in job.stragglers))
    return None if lost is None or part is None else lost * part


def _beside(late_rank: RankLateness, job: Job, timelines: Sequence[Timeline]) -> Sequence[Timeline]:
    """The timelines of the ranks that do the same: those of its stage in a pipeline, if others are in it."""
    stages = job.view.pipeline.stages if job.view.pipeline else ()
    beside = next((stage.ranks for stage in stages if late_rank.rank in stage.ranks), ())
    return timelines if len(beside) < 2 else [timeline for timeline in timelines if timeline.rank in beside]


def _because(late_rank: RankLateness, job: Job) -> str:
    """The reason, in how many steps, with which other ranks of its host, and which of its settings differ."""
    told = [late_rank.because, f"late in {len(late_rank.steps)} of {late_rank.of_steps} steps"]
    if late_rank.persistence == "persistent" and len(late_rank.steps) < PERSISTENT * late_rank.of_steps:
        told[-1] += f", in all since step {late_rank.steps[0]:,}"
    if together := _whole_host(late_rank, job):
        told.append(f"so are all {together} ranks of its host")
    if unlike := settings_unlike(late_rank.rank, job.ranks):
        told.append(f"unlike the other ranks it has {unlike}")
    return "; ".join(told)


def _whole_host(late_rank: RankLateness, job: Job) -> int:
    """Ranks of the host when all of them are named, 0 else."""
    host = {rank.rank: rank.host for rank in job.ranks}
    beside = [rank for rank, name in host.items() if name and name == host[late_rank.rank]]
    late = {straggler.rank for straggler in job.stragglers}
    return len(beside) if len(beside) > 1 and late.issuperset(beside) else 0


def transient_stragglers_of(job: Job) -> tuple[Straggler, ...]:
    """The ranks that delayed single steps and are not named as stragglers."""
    return tuple(
        _straggler(late_rank, job, (), None) for late_rank in job.lateness if late_rank.persistence == "transient"
    )


def possible_stragglers_of(job: Job) -> tuple[Straggler, ...]:
    """The rank that causes most of the waiting, if the steps are too few to name it."""
    return tuple(
        _straggler(late_rank, job, (), None)
        for late_rank in job.lateness
        if late_rank.persistence == "suspected" and not late_rank.stands_out
    )


def missing_straggler(job: Job) -> Unknown | None:
    """The reason why a rank without a trace may be the late one, None if nothing suggests it.

    The shortest duration over the present ranks counts as transfer, and includes their common wait for absent ranks. In
    steps that the profiler distorts, it is unknown why ranks wait.
    """
    missing = missing_ranks(job.ranks)
    if job.view.distortion is not None or not missing or job.stragglers or len(job.ranks) < 2:
        return None
    unexplained = share(max(_may_be_missed(job)), sum(rank.total_ns for rank in job.ranks)) or 0.0
    if unexplained < MIN_SHARE:
        return None
    listed = ", ".join(str(rank) for rank in missing[:8]) + (", ..." if len(missing) > 8 else "")
    return Unknown(
        f"a rank whose trace is missing ({listed}) may be the late one: {spoken(unexplained, 'share')} of the others' "
        "step is in collectives, for which no present rank accounts",
        analysis_option("the traces of all ranks"),
    )


def with_missing_straggler(job: Job) -> Job:
    """The job, marked if a missing rank may be late: then transfer cannot be split from waiting for that rank."""
    missing_rank = missing_straggler(job)
    if missing_rank is None:
        return job
    changes = job.changes if job.changes.because else Changes(because=missing_rank.because)
    view = replace(job.view, late_rank_missing=missing_rank, bus_bytes_per_s=missing_rank)
    return replace(job, view=view, changes=changes)


def _may_be_missed(job: Job) -> tuple[int, int]:
    """Nanoseconds of all ranks in exposed collectives that a missing one may delay: seen as transfer, and as waiting.

    In a group whose ranks are all there one of them comes last; if it waited itself, in a group with others, it is no
    present rank that the rest wait for.
    """
    transfer = waited = 0
    for position, (rank, whole) in enumerate(zip(job.ranks, _whole_groups(job), strict=True)):
        waits = job.waits[position] if job.waits else None
        seen = iv.EMPTY if waits is None else iv.intervals(waits.start, waits.end)
        transfer += iv.total(iv.subtract(rank.exposed, iv.union(seen, whole)))
        if waits is not None:
            elsewhere = waits.late == NOBODY
            passed_on = iv.intervals(waits.start[elsewhere], waits.end[elsewhere])
            missed = iv.union(iv.subtract(seen, whole), passed_on)
            waited += iv.total(iv.intersect(rank.exposed, missed))
    return transfer, waited


def _whole_groups(job: Job) -> list[iv.Intervals]:
    """The instants of each rank in collectives of groups whose ranks all have a trace."""
    parts: list[list[iv.Intervals]] = [[] for _ in job.ranks]
    for group in job.match:
        for m, p in enumerate(group.members.tolist() if not group.absent else ()):
            parts[p].append(iv.intervals(group.start[:, m], group.end[:, m]))
    return [iv.union(*each) for each in parts]
