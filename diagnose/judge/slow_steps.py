"""Slow steps of the window and of the run, and the breakdown's cause that grew most in them."""

from collections.abc import Iterator, Mapping

import numpy as np

from diagnose.arrays import Floats, Ints, Mask
from diagnose.diagnosis import SlowStep
from diagnose.formulas.statistics import outliers
from diagnose.judge.case import Case
from diagnose.metrics import Measured
from diagnose.ranks import Job
from diagnose.trace.record import timed_steps

SLOW_FROM = 1.2  # times the median, and as many robust deviations above it as follow: beyond the usual spread
DEVIATIONS = 3
MOST = 20
_LEAST_STEPS = 3
_LEAST_TIMED = 8
_WARM = 1.1


def slow_steps(case: Case) -> tuple[SlowStep, ...]:
    """The slowest steps, in order of number; for a step that is slow on several ranks, the slowest rank's.

    None of a window that the profiler distorts: a growth there may be the profiler's.
    """
    worst: dict[tuple[int, bool], SlowStep] = {}
    measured = [m for m in case.measured if case.only in (None, m.timeline.rank)]
    recorded = () if case.job.view.distortion is not None else case.positions
    for found in (*(_recorded(case.job, at) for at in recorded), *(_timed(m) for m in measured)):
        for step in found:
            known = worst.get((step.step, step.recorded))
            if known is None or step.factor > known.factor:
                worst[step.step, step.recorded] = step
    slowest = sorted(worst.values(), key=lambda step: -step.factor)[:MOST]
    return tuple(sorted(slowest, key=lambda step: step.step))


def _recorded(job: Job, position: int) -> Iterator[SlowStep]:
    """Yield the slow steps of the window, each with the cause that grew most against the median of the others.

    Causes are those of the job's breakdown: waiting for another rank does not count as transfer.
    """
    rank = job.ranks[position]
    ns = rank.windows[:, 1] - rank.windows[:, 0]
    if len(ns) < _LEAST_STEPS or rank.capture_failed or len(rank.numbers) != len(ns):
        return
    slow = np.flatnonzero(_slow(ns)).tolist()
    by_step = job.breakdown_by_step(position) if slow else {}
    for at in slow:
        cause, more_ns = _grown(by_step, at)
        yield SlowStep(
            step=rank.numbers[at],
            rank=rank.rank,
            recorded=True,
            ns=int(ns[at]),
            factor=float(ns[at] / np.median(ns)),
            cause=cause,
            cause_ns=more_ns,
        )


def _grown(by_step: Mapping[str, Ints], at: int) -> tuple[str, int]:
    more = {cause: int(ns[at] - np.median(np.delete(ns, at))) for cause, ns in by_step.items()}
    most = max(more, key=lambda cause: more[cause], default="")
    return (most, more[most]) if most and more[most] > 0 else ("", 0)


def _timed(m: Measured) -> Iterator[SlowStep]:
    """Yield the slow steps timed without the profiler; none in the warm-up, which ends with the first usual step.

    If a device runs behind the host, host times of single steps are unreliable: only those timed by events count.
    """
    number, ns = timed_steps(m.record, by_events_alone=m.record.text("steps.clock") == "device")
    if len(ns) < _LEAST_TIMED:
        return
    middle = float(np.median(ns))
    warm = int(np.argmax(ns <= _WARM * middle))
    for at in np.flatnonzero(_slow(ns)).tolist():
        if at > warm:
            yield SlowStep(
                step=int(number[at]),
                rank=m.timeline.rank,
                recorded=False,
                ns=int(ns[at]),
                factor=float(ns[at] / middle),
            )


def _slow(ns: Ints | Floats) -> Mask:
    return outliers(ns, SLOW_FROM, DEVIATIONS)
