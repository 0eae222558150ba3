"""Find the day since which a cause takes more of the jobs, or less."""

from collections.abc import Sequence

import numpy as np

from diagnose.commands.fleet.account import JobAccount, part_of
from diagnose.commands.fleet.answer import FleetCause, FleetTrend
from diagnose.commands.fleet.offenders import ALPHA
from diagnose.formulas.statistics import independent_shift, least_shift_p

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
