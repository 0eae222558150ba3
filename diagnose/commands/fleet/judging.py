"""Judge windows into a frozen Fleet."""

from collections.abc import Iterator, Sequence

from diagnose.commands.fleet.account import JobAccount, causes_of, counted, days_of, groups_of, part_of, priced
from diagnose.commands.fleet.answer import Basis, Fleet, FleetJob
from diagnose.commands.fleet.changes import added, changes_of, times, whole_plan
from diagnose.commands.fleet.jobs import JobWindows, Terms, basis_of, devices_of, jobs_of
from diagnose.commands.fleet.matching import unused
from diagnose.commands.fleet.offenders import hosts_of
from diagnose.commands.fleet.reading import Read
from diagnose.commands.fleet.trends import trends_of
from diagnose.errors import UserError

_NO_GPU, _NO_LENGTH = "it runs without a GPU", "nothing says how long it ran"


def fleet_of(read: Read, terms: Terms, source: str) -> Fleet:
    """The content of a report of these jobs.

    Args:
        read: the windows that were read.
        terms: facts that captures do not hold.
        source: the folder, as it may be shown.

    Raises:
        UserError: there is no job at all.
    """
    jobs = jobs_of(read.windows.values(), terms)
    if not jobs:
        raise UserError("no diagnosis can be used, and no run", where=source, why=_why_none(read), do=_DO)
    basis = basis_of(jobs, terms)
    pairs = [(job, counted(job, basis)) for job in jobs]
    kept = [each for _, each in pairs if each is not None]
    causes, (hosts, tested) = causes_of(kept), hosts_of(kept)
    whole, lost = sum(each.gpu_hours for each in kept), sum(each.lost for each in kept)
    plans = (times(share, each.gpu_hours) for each in kept if (share := whole_plan(each.job.newest.plan)) is not None)
    return Fleet(
        source=source,
        basis=basis,
        diagnoses=read.diagnoses,
        analysed=read.analysed,
        repeats=read.repeats,
        jobs=tuple(sorted((_job(*pair) for pair in pairs), key=_by_loss)),
        counted=len(kept),
        gpus=sum(each.job.gpus for each in kept),
        gpu_hours=whole,
        lost_gpu_hours=lost,
        unknown_gpu_hours=sum(row.gpu_hours for row in causes if row.spent == "unknown"),
        price=priced((each.job.price, each.lost) for each in kept),
        priced_share=part_of(sum(each.gpu_hours for each in kept if each.job.price is not None), whole),
        causes=causes,
        groups=groups_of(kept),
        changes=changes_of(kept),
        all_changes=added(plans),
        hosts=hosts,
        hosts_tested=tested,
        trends=trends_of(kept, causes),
        days=days_of(kept),
        unread=tuple(read.unread),
        notes=tuple(_notes(read, jobs, kept, basis, terms)),
    )


_DO = "write some with diagnose analyze RUN --json > FILE.json, or name the folder of the runs"


def _why_none(read: Read) -> str:
    if read.unread:
        first = read.unread[0]
        return f"{_count(len(read.unread), 'file')} cannot be used, the first is {first.file}: {first.why}"
    return (
        f"{_count(read.left, 'run')} without a diagnosis are left out"
        if read.left
        else "nothing in it is a diagnosis or a trace"
    )


def _by_loss(job: FleetJob) -> tuple[bool, float, str]:
    return job.gpu_hours is None, -(job.gpu_hours or 0.0) * (job.lost_share or 0.0), job.name


def _job(job: JobWindows, each: JobAccount | None) -> FleetJob:
    newest, share = job.newest, whole_plan(job.newest.plan)
    known = each is not None and each.gpu_hours > 0
    return FleetJob(
        name=job.name,
        label=job.label,
        gpus=job.gpus,
        devices=devices_of(job),
        hosts=len({part.host for part in newest.parts} - {""}),
        windows=len(job.windows),
        began=min((window.began for window in job.windows if window.began), default=""),
        hours=None if job.gpu_hours is None else job.gpu_hours / max(job.gpus, 1),
        hours_from=job.hours_from,
        gpu_hours=None if each is None else each.gpu_hours,
        because="" if each is not None else _NO_LENGTH if job.has_gpu else _NO_GPU,
        lost_share=part_of(each.lost, each.gpu_hours) if each is not None and known else None,
        cause=each.worst if each is not None else "",
        price=None if each is None or job.price is None else job.price * each.gpu_hours,
        verdict=newest.verdict,
        next=newest.next,
        returned=None if each is None or share is None else times(share, each.gpu_hours),
        source=newest.source,
    )


def _notes(
    read: Read, jobs: Sequence[JobWindows], kept: Sequence[JobAccount], basis: Basis, terms: Terms
) -> Iterator[str]:
    unknown = sum(job.has_gpu and job.gpu_hours is None for job in jobs)
    if basis == "day":
        yield (
            f"nothing says how long {_count(unknown, 'job')} ran: GPU-hours are of a day in which all jobs run on all "
            "their GPUs; --accounting or --hours tells what they cost"
        )
    elif unknown:
        yield f"{_count(unknown, 'job')} of unknown length: not counted; --accounting or --hours tells it"
    if without := sum(not job.has_gpu for job in jobs):
        yield f"{_count(without, 'job')} without a GPU: not counted"
    if undated := sum(not each.job.day for each in kept):
        yield f"{_count(undated, 'job')} without a date: in no trend and on no day"
    if read.left:
        yield f"{_count(read.left, 'run')} without a diagnosis: left out, as --diagnoses-only asks"
    yield from unused((job.windows for job in jobs), terms.accounting, {job.row for job in jobs})
    prices = {each.job.price for each in kept if each.job.price is not None}
    if prices and any(each.job.price is None for each in kept):
        yield "some jobs have no price: money is of the others alone"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
