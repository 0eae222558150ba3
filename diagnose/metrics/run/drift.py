"""Whether the job's speed changed between the steps before the window and those after it, and what holds at both."""

from collections.abc import Mapping, Sequence

import numpy as np

from diagnose.attribution.leading import WAITS, WORKS, class_shares, leader
from diagnose.facts import DIAGNOSE_RUN, Unknown, Value, another_run
from diagnose.formulas.statistics import robust_deviation
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.run.steps import listed_times
from diagnose.probes.protocol import COMPILE_RANGE
from diagnose.trace.record import control_ns

LEAST_CONTROLS = 2  # steps on each side of the window: one alone may be an odd one
LEAST_EARLIER = 8  # steps before the window, whose spread says how much single steps differ
MEDIAN_ERROR = 1.25  # of the median of normally distributed values over that of their mean
FAR = 3.0  # standard errors
COMPILES_FROM = 0.5  # of the time of the steps without the profiler
COMPILED = Unknown(
    "torch.compile compiled in the steps without the profiler",
    another_run("capture a window behind the compilations (diagnose run --at-step K)"),
)
_NO_CONTROLS = Unknown("no steps on both sides of the window were timed without the profiler", DIAGNOSE_RUN)


@metric("factor", needs_gpu=False)
def control_drift_factor(m: Measured) -> Value:
    """Median step without the profiler after the window over that before it, or the other way round: 1 or more.

    If a step of one side is as long as one of the other, or all steps before the window differ as much as the sides do,
    the work of single steps differs, as that of texts of unlike lengths: then the speed did not change. Unknown if most
    of these steps' time is compilation, which is no speed of the job.
    """
    before, after = _usual_controls(m)
    if min(len(before), len(after)) < LEAST_CONTROLS:
        return Unknown(
            f"fewer than {LEAST_CONTROLS} steps on each side of the window were timed without the profiler",
            DIAGNOSE_RUN,
        )
    if _compiled_share(m) > COMPILES_FROM:
        return COMPILED
    shorter, longer = sorted((before, after), key=np.median)
    if max(shorter) >= min(longer) or _differ_as_much(m, before, after):
        return 1.0
    return float(np.median(longer)) / max(float(np.median(shorter)), 1.0)


def _usual_controls(m: Measured) -> tuple[list[float], list[float]]:
    """The steps on each side, without those of a phase that makes one step in several longer: they show no change."""
    before, after = control_ns(m.record)
    phase = m.slow_phase
    if isinstance(phase, Unknown):
        return before, after
    longest = phase.usual_ns + phase.more_ns / 2
    return [ns for ns in before if ns < longest], [ns for ns in after if ns < longest]


def _differ_as_much(m: Measured, before: Sequence[float], after: Sequence[float]) -> bool:
    """Whether the median step after the window lies where medians of as many steps from before it come to lie."""
    earlier = [*(ns for ns in m.record.get("steps.waiting_ns") or () if ns), *before]
    if len(earlier) < LEAST_EARLIER:
        return False
    error = MEDIAN_ERROR * robust_deviation(np.array(earlier)) / np.sqrt(len(after))
    return abs(float(np.median(after) - np.median(earlier))) <= FAR * error


def _compiled_share(m: Measured) -> float:
    """The part of the time of all these steps in which torch.compile compiled."""
    times, ranges = m.record.get("steps.unprofiled_host_ns") or (), m.record.get("steps.unprofiled_ranges_ns") or {}
    compiled = ranges.get(COMPILE_RANGE) or ()
    return sum(ns or 0 for ns in compiled) / max(sum(ns or 0 for ns in times), 1)


@metric("text", needs_gpu=False)
def control_step_times(m: Measured) -> Value:
    """Durations of the steps that the capture took without the profiler, before and after its window."""
    before, after = (sorted(times) for times in _usual_controls(m))
    if not before or not after:
        return _NO_CONTROLS
    return f"{listed_times(before)} before the recording, {listed_times(after)} after it"


@metric("flag", needs_gpu=False)
def class_at_either_speed(m: Measured) -> Value:
    """Whether the class that leads the counted steps leads steps of both speeds, those before the window and those
    after it: at the higher speed even if it alone lost the time, at the lower one even if another class alone took it.
    """
    before, after = _usual_controls(m)
    if not before or not after:
        return _NO_CONTROLS
    shares = class_shares({cause: m.share(cause) for cause in m.cause_ns})
    leads, beside = leader(shares)
    if beside or m.job.distortion is not None:
        return False
    factors = [float(np.median(side)) / (m.step_s * 1e9) for side in (before, after)]
    return all(_leads_anyway(leads, shares, factor) for factor in factors)


def _leads_anyway(leads: str, shares: Mapping[str, float], factor: float) -> bool:
    """Whether the class leads a step of `factor` times the time, whichever class the difference is of, and what is
    unexplained.
    """
    more = max(factor - 1, 0.0) + shares["unexplained"]
    of_its_own = {**shares, leads: shares[leads] - max(1 - factor, 0.0)}
    drawn = [of_its_own | {other: of_its_own[other] + more} for other in (*WAITS, *WORKS) if other != leads]
    return all(leader({name: share / factor for name, share in each.items()}) == (leads, "") for each in drawn)
