"""GPU-hours returned by the changes of all plans: each job once, by its own plan, so that no gain counts twice."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nlargest

from diagnose.commands.fleet.account import WORST, JobAccount
from diagnose.commands.fleet.answer import FleetChange
from diagnose.commands.fleet.window import PlannedChange
from diagnose.diagnosis.terms import Speedup


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
