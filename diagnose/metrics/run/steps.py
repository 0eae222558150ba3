"""The steps: their number, their time, and how even they are."""

from collections.abc import Sequence

import numpy as np

from diagnose.arrays import Floats
from diagnose.facts import DIAGNOSE_RUN, Unknown, Value, another_run, spoken
from diagnose.formulas.statistics import ENDS, draws_of, robust_deviation
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.unknowns import MORE_STEPS
from diagnose.probes.protocol import COMPILE_RANGE
from diagnose.trace.light_steps import every_step
from diagnose.trace.record import CaptureRecord, control_ns, unprofiled_ns

MOST_LISTED = 4  # durations that a sentence holds
LEAST_CONTROLS = 2  # steps on each side of the window: one alone may be an odd one
LEAST_EARLIER = 8  # steps before the window, whose spread says how much single steps differ
MEDIAN_ERROR = 1.25  # of the median of normally distributed values over that of their mean
FAR = 3.0  # standard errors
LEAST_STEPS = 20  # full collections come every ten steps or so: fewer steps may hold none
MOST_STEPS = 1000
MORE_UNPROFILED = another_run(f"diagnose tune --control {LEAST_STEPS} times so many steps without the profiler")

COMPILES_FROM = 0.5  # of the time of the steps without the profiler
COMPILED = Unknown(
    "torch.compile compiled in the steps without the profiler",
    another_run("capture a window behind the compilations (diagnose run --at-step K)"),
)


def _durations(m: Measured) -> "np.ndarray[tuple[int, ...], np.dtype[np.int64]]":
    return m.timeline.windows[:, 1] - m.timeline.windows[:, 0]


@metric("count", needs_gpu=False)
def step_count(m: Measured) -> Value:
    """Steps that are counted: complete ones with work, without the first when there are three or more."""
    return m.timeline.steps.count


@metric("text", needs_gpu=False)
def steps_source(m: Measured) -> Value:
    """The marks of the steps:

    ProfilerStep, diagnose.step, named ranges, Optimizer.step, optimizer kernels, "pattern" (of kernels that repeat),
    "window" (the whole capture), or "unlinked steps" (the same, because no GPU activity is linked to a launch in the
    marked steps).
    """
    return m.timeline.steps.source


@metric("ns", needs_gpu=False)
def step_time_ns(m: Measured) -> Value:
    """Median duration of a counted step: on the device if there is one, else on the host."""
    return float(np.median(_durations(m)))


@metric("ns", needs_gpu=False)
def unprofiled_step_time_ns(m: Measured) -> Value:
    """Median duration on the host of the steps that the capture took without the profiler, before and after its own."""
    times = unprofiled_ns(m.record)
    if not times:
        return Unknown("no step was timed without the profiler", DIAGNOSE_RUN)
    return float(np.median(times))


@metric("share", "the steps without the profiler", needs_gpu=False)
def unprofiled_gc_share(m: Measured) -> Value:
    """Share of the unprofiled steps' time in which Python collects garbage, if there are many such steps.

    Beside a GPU, which may work through a collection, of each only what its step takes beyond the median.
    """
    timed = _timed_with_collections(m)
    return timed if isinstance(timed, Unknown) else min(float(timed[1].sum() / timed[0].sum()), 1.0)


@metric("share", "the steps without the profiler", needs_gpu=False)
def least_unprofiled_gc_share(m: Measured) -> Value:
    """The same, but all but one in twenty resampled draws of these steps give more."""
    return _drawn_gc_share(m, min(ENDS))


@metric("share", "the steps without the profiler", needs_gpu=False)
def most_unprofiled_gc_share(m: Measured) -> Value:
    """The same, but all but one in twenty draws give less."""
    return _drawn_gc_share(m, max(ENDS))


def _drawn_gc_share(m: Measured, quantile: float) -> Value:
    timed = _timed_with_collections(m)
    if isinstance(timed, Unknown):
        return timed
    drawn = draws_of(len(timed[0]))
    taken, spent = (each[drawn].sum(axis=1) for each in timed)
    return min(float(np.quantile(spent / taken, quantile)), 1.0)


def _timed_with_collections(m: Measured) -> tuple[Floats, Floats] | Unknown:
    """Time of each step without the profiler, and of what collections add to it, nanoseconds."""
    every = every_step(m.record)
    taken, spent = (
        _beside_controls(m.record) if every is None else (every.ns[~every.profiled], every.gc_ns[~every.profiled])
    )
    if len(taken) < LEAST_STEPS or taken.min() <= 0:
        return Unknown(f"garbage was collected beside a clock in fewer than {LEAST_STEPS} steps", MORE_UNPROFILED)
    taken, spent = taken[-MOST_STEPS:], spent[-MOST_STEPS:]
    return taken, np.minimum(spent, np.maximum(taken - np.median(taken), 0)) if m.timeline.has_gpu else spent


def _beside_controls(record: CaptureRecord) -> tuple[Floats, Floats]:
    """The same of the steps on both sides of the window; none if one of them was not timed."""
    steps, pauses = (record.get(f"steps.unprofiled_{of}_ns") or () for of in ("host", "gc"))
    known = None not in (*steps, *pauses) and len(pauses) == len(steps)
    return tuple(np.array(each if known else (), np.float64) for each in (steps, pauses))  # type: ignore[return-value]


@metric("share", "the median step", needs_gpu=False)
def step_noise_share(m: Measured) -> Value:
    """Spread of counted steps around the median one: 1.48 times the median distance, a robust standard deviation."""
    lasted = _durations(m)
    if len(lasted) < 2:
        return Unknown("one step is counted", MORE_STEPS)
    return min(robust_deviation(lasted) / max(float(np.median(lasted)), 1), 1.0)


@metric("factor", needs_gpu=False)
def step_spread_factor(m: Measured) -> Value:
    """Slowest counted step over the median one."""
    if m.timeline.steps.count < 2:
        return Unknown("one step is counted", MORE_STEPS)
    return float(_durations(m).max() / max(np.median(_durations(m)), 1))


@metric("factor", needs_gpu=False)
def least_step_factor(m: Measured) -> Value:
    """Fastest counted step over the median one."""
    if m.timeline.steps.count < 2:
        return Unknown("one step is counted", MORE_STEPS)
    return float(_durations(m).min() / max(np.median(_durations(m)), 1))


@metric("text", needs_gpu=False)
def counted_step_times(m: Measured) -> Value:
    """Durations of the counted steps: each of a few, the shortest and the longest of more."""
    return _listed_times(sorted(_durations(m).tolist()))


def _listed_times(ns: Sequence[float]) -> str:
    if len(ns) > MOST_LISTED:
        return f"from {spoken(ns[0], 'ns')} to {spoken(ns[-1], 'ns')}"
    *others, last = (spoken(each, "ns") for each in ns)
    return f"{', '.join(others)} and {last}" if others else last


@metric("factor", needs_gpu=False)
def control_drift_factor(m: Measured) -> Value:
    """Median step without the profiler after the window over that before it, or the other way round: 1 or more.

    If a step of one side is as long as one of the other, or all steps before the window differ as much as the sides do,
    the work of single steps differs, as that of texts of unlike lengths: then the speed did not change. Unknown if most
    of these steps' time is compilation, which is no speed of the job.
    """
    before, after = control_ns(m.record)
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
    before, after = (sorted(times) for times in control_ns(m.record))
    if not before or not after:
        return Unknown("no steps on both sides of the window were timed without the profiler", DIAGNOSE_RUN)
    return f"{_listed_times(before)} before the recording, {_listed_times(after)} after it"


@metric("factor", needs_gpu=False)
def slow_first_step_factor(m: Measured) -> Value:
    """Duration of the first step of the window, which is not counted, over the median counted one."""
    if not m.timeline.steps.dropped_ns:
        return Unknown("no step was left out", MORE_STEPS)
    return m.timeline.steps.dropped_ns[0] / max(float(np.median(_durations(m))), 1.0)


@metric("flag", needs_gpu=False)
def has_gpu(m: Measured) -> Value:
    """Whether the trace holds GPU activity."""
    return m.timeline.has_gpu
