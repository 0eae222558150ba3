"""Slow steps of the window and of the run, and the breakdown's cause that grew most in them."""

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec.structs import replace

from diagnose.arrays import Floats, Ints, Mask
from diagnose.attribution.causes import OPTIMIZER_OPERATORS
from diagnose.diagnosis import SlowStep
from diagnose.formulas.statistics import outliers
from diagnose.judge.case import Case
from diagnose.metrics import Measured
from diagnose.probes import protocol
from diagnose.ranks import Job
from diagnose.trace.light_steps import GC, EveryStep, every_step, grown
from diagnose.trace.record import timed_steps

SLOW_FROM = 1.2  # times the median, and as many robust deviations above it as follow: beyond the usual spread
DEVIATIONS = 3
MOST = 20
_LEAST_STEPS = 3
_LEAST_TIMED = 8
_WARM = 1.1
_OF_THE_HOST = 0.5  # of a step whose time on the host alone is no measure of it
_CAUSE_OF = {
    protocol.FIRST_BATCH_RANGE: "data-wait",
    protocol.DATA_WAIT_RANGE: "data-wait",
    protocol.EVAL_RANGE: "logging",
    protocol.SAVE_RANGE: "logging",
    protocol.LOG_RANGE: "logging",
    protocol.COMPILE_RANGE: "compile",
    protocol.OPTIMIZER_RANGE: OPTIMIZER_OPERATORS,
    GC: "gc",
}
WHAT = {  # what of the cause a range is
    protocol.FIRST_BATCH_RANGE: "an epoch starts here, with the first batch of a pass over the loader",
    protocol.EVAL_RANGE: "an evaluation",
    protocol.SAVE_RANGE: "a checkpoint",
    protocol.LOG_RANGE: "a log",
}


def slow_steps(case: Case) -> tuple[SlowStep, ...]:
    """The slowest steps, in order of number; of a step that is slow on several ranks, that of the one that says why,
    else of the slowest that does not wait for another.

    None of a window that the profiler distorts: a growth there may be the profiler's.
    """
    worst: dict[tuple[int, bool], SlowStep] = {}
    measured = [m for m in case.measured if case.only in (None, m.timeline.rank)]
    recorded = () if case.job.view.distortion is not None else case.positions
    for found in (*(_recorded(case.job, at) for at in recorded), *(_timed(m) for m in measured)):
        for step in found:
            known = worst.get((step.step, step.recorded))
            if known is None or _tells_more(case, step, known):
                worst[step.step, step.recorded] = step
    slowest = sorted(worst.values(), key=lambda step: -step.factor)[:MOST]
    return tuple(sorted(slowest, key=lambda step: step.step))


def _tells_more(case: Case, step: SlowStep, known: SlowStep) -> bool:
    waiting = {m.timeline.rank for m in case.measured if m.waits_in_phase}
    one, other = ((bool(each.cause), each.rank not in waiting, each.factor) for each in (step, known))
    return one > other


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
    """Yield the slow steps that are not counted; none in the warm-up, which ends with the first usual step.

    If a device runs behind the host, or the profiler was on, the host's times of single steps are unreliable: then only
    those count whose time lies in ranges in which the host works alone, and those that events of the device timed.
    """
    rank, on_device = m.timeline.rank, m.record.text("steps.clock") == "device"
    number, ns = timed_steps(m.record, by_events_alone=on_device)
    every = every_step(m.record)
    if every is None or len(every.ns) < len(ns):
        yield from _among(number, ns, ns, rank)
        return
    if on_device:
        yield from _among(number, ns, ns, rank)
    usual = ~every.profiled
    for step in _among(every.number, every.ns, every.ns[usual], rank):
        at = int(np.flatnonzero(every.number == step.step)[0])
        told = _explained(step, every, at)
        unsure = on_device or not usual[at]
        if step.step not in m.timeline.steps.numbers and (not unsure or told.cause_ns > _OF_THE_HOST * step.ns):
            yield told


def _among(number: Ints, ns: Floats, usual_ns: Floats, rank: int) -> Iterator[SlowStep]:
    """Yield the steps that are slow beside the usual ones."""
    if len(usual_ns) < _LEAST_TIMED:
        return
    middle = float(np.median(usual_ns))
    warm = int(np.argmax(ns <= _WARM * middle))
    for at in np.flatnonzero(_slow(ns, usual_ns)).tolist():
        if at > warm:
            factor = float(ns[at] / middle)
            yield SlowStep(step=int(number[at]), rank=rank, recorded=False, ns=int(ns[at]), factor=factor)


def _explained(step: SlowStep, every: EveryStep, at: int) -> SlowStep:
    """The step with the range that grew most in it beyond the median of all; unchanged if none explains it."""
    grew, more_ns = grown(every, np.array([at]))
    return replace(step, cause=cause_of(grew), cause_ns=int(more_ns), what=WHAT.get(grew, "")) if grew else step


def cause_of(grew: str) -> str:
    """The cause of the ledger that a range of `grown` stands for."""
    return _CAUSE_OF[grew]


def _slow(ns: Ints | Floats, usual_ns: Floats | None = None) -> Mask:
    return outliers(ns, SLOW_FROM, DEVIATIONS, usual_ns)
