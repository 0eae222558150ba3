"""Judge windows into a frozen Fleet."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest

import numpy as np

from diagnose.commands.fleet.account import WORST, JobAccount, causes_of, counted, days_of, groups_of, part_of, priced
from diagnose.commands.fleet.answer import Basis, Fleet, FleetCause, FleetChange, FleetJob, FleetTrend
from diagnose.commands.fleet.jobs import JobWindows, Terms, basis_of, devices_of, jobs_of
from diagnose.commands.fleet.matching import unused
from diagnose.commands.fleet.offenders import ALPHA, host_days_of, hosts_of
from diagnose.commands.fleet.reading import Read
from diagnose.commands.fleet.window import PlannedChange
from diagnose.diagnosis.terms import Speedup
from diagnose.errors import UserError
from diagnose.formulas.statistics import independent_shift, least_shift_p

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
        host_days=host_days_of(kept),
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


# Find the day since which a cause takes more of the jobs, or less.

MOST_TESTED = 8
_LEAST_SHARE = 0.01  # of all GPU-hours: a trend of less is worth nobody's time


def trends_of(jobs: Sequence[JobAccount], causes: Sequence[FleetCause]) -> tuple[FleetTrend, ...]:
    """Trend of each of the most losing causes, over the jobs in order of time; jobs without a date are left out.

    A change lies between two times: the order of jobs that began at the same time is unknown.
    """
    dated = sorted((each for each in jobs if each.job.day and each.gpu_hours > 0), key=_began)
    lost = [row.cause for row in causes if row.spent == "lost" and row.share >= _LEAST_SHARE][:MOST_TESTED]
    splits = [at for at in range(1, len(dated)) if _began(dated[at]) != _began(dated[at - 1])]
    return tuple(_trend(cause, dated, splits, len(lost)) for cause in lost)


def _began(each: JobAccount) -> str:
    return min(window.began for window in each.job.windows if window.began)


def _trend(cause: str, dated: Sequence[JobAccount], splits: Sequence[int], tested: int) -> FleetTrend:
    if least_shift_p(len(dated), splits) * tested >= ALPHA:
        because = f"{_in_words(len(dated), len(splits) + 1)} too few to tell a change from chance"
        return FleetTrend(cause=cause, answer="unknown", because=because, jobs=len(dated))
    at, p_value = independent_shift(np.array([each.causes.get(cause, 0.0) / each.gpu_hours for each in dated]), splits)
    corrected = min(1.0, p_value * tested)
    if corrected >= ALPHA:
        because = f"over {len(dated)} jobs it goes up and down as chance does"
        return FleetTrend(cause=cause, answer="no", because=because, jobs=len(dated), p_value=corrected)
    before, after = _share(cause, dated[:at]), _share(cause, dated[at:])
    because = (
        f"{100 * before:.1f} % of the GPU-hours of {at} jobs before, {100 * after:.1f} % of {len(dated) - at} since"
    )
    return FleetTrend(
        cause=cause,
        answer="yes",
        because=because,
        jobs=len(dated),
        since_day=dated[at].job.day,
        before_share=before,
        after_share=after,
        p_value=corrected,
    )


def _in_words(jobs: int, times: int) -> str:
    if jobs == 1:
        return "1 job with a date is"
    of = f", of {times} {'time' if times == 1 else 'times'}," if times < jobs else ""
    return f"{jobs} jobs with a date{of} are"


def _share(cause: str, jobs: Sequence[JobAccount]) -> float:
    return part_of(sum(each.causes.get(cause, 0.0) for each in jobs), sum(each.gpu_hours for each in jobs))


# GPU-hours returned by the changes of all plans: each job once, by its own plan, so that no gain counts twice.


@dataclass(frozen=True)
class Returned:
    """A step of a job's plan, and the share of the job's time that it takes off after the steps before it."""

    step: PlannedChange
    share: Speedup


def returned_by(plan: Sequence[PlannedChange]) -> list[Returned]:
    """The return of each step of a plan; the shares add up to that of the plan, in the worst case and in the best.

    A step returns less in the best case than in the worst if those before it have already returned more; its range then
    goes from the one to the other.
    """
    found: list[Returned] = []
    low_before, high_before = 1.0, 1.0
    for step in plan:
        low, high = step.cumulative
        now = min(low_before, 1 / low)  # what slows the job is taken back
        worst, low_before = low_before - now, now
        if high is None or high_before == 0:
            best, high_before = None, 0.0
        else:
            best, high_before = high_before - 1 / high, 1 / high
        share = (worst, None) if best is None else (min(worst, max(best, 0.0)), max(worst, best))
        found.append(Returned(step, share))
    return found


def whole_plan(plan: Sequence[PlannedChange]) -> Speedup | None:
    """The share of the job's time that its whole plan takes off; None if nothing is predicted."""
    if not plan:
        return None
    low, high = plan[-1].cumulative
    return max(1 - 1 / low, 0.0), None if high is None else max(1 - 1 / high, 0.0)


def times(share: Speedup, amount: float) -> Speedup:
    """The range of the share, times the amount."""
    return share[0] * amount, None if share[1] is None else share[1] * amount


def added(ranges: Iterable[Speedup]) -> Speedup | None:
    """The sum of ranges; None without any. An unknown high end makes that of the sum unknown."""
    each = list(ranges)
    if not each:
        return None
    highs = [high for _, high in each if high is not None]
    return sum(low for low, _ in each), sum(highs) if len(highs) == len(each) else None


def changes_of(jobs: Iterable[JobAccount]) -> tuple[FleetChange, ...]:
    """A row for each rule, the largest return in the worst case first."""
    by_rule: dict[str, list[tuple[JobAccount, Returned]]] = {}
    for each in jobs:
        for returned in returned_by(each.job.newest.plan):
            by_rule.setdefault(returned.step.rule, []).append((each, returned))
    found = [_change(rule, own) for rule, own in by_rule.items()]
    return tuple(sorted(found, key=lambda row: (-row.gpu_hours[0], -(row.gpu_hours[1] or 0.0), row.rule)))


def _change(rule: str, own: Sequence[tuple[JobAccount, Returned]]) -> FleetChange:
    hours = [(each.job, returned, times(returned.share, each.gpu_hours)) for each, returned in own]
    worst = nlargest(WORST, hours, key=lambda one: (one[2][0], one[2][1] or 0.0))
    first = worst[0][1].step
    prices = [times(amount, job.price) for job, _, amount in hours if job.price is not None]
    return FleetChange(
        rule=rule,
        action=first.action,
        effort=first.effort,
        numerics=any(returned.step.numerics for _, returned in own),
        jobs=len(own),
        gpu_hours=added(amount for *_, amount in hours) or (0.0, 0.0),
        price=added(prices),
        worst=tuple(job.name for job, *_ in worst),
    )
