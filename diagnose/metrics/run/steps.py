"""The steps: their number, their time, and how even they are."""

from collections.abc import Sequence

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Floats
from diagnose.facts import DIAGNOSE_RUN, Unknown, Value, another_run, spoken
from diagnose.formulas.statistics import ENDS, draws_of, robust_deviation
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.unknowns import MORE_STEPS
from diagnose.trace.light_steps import every_step
from diagnose.trace.record import CaptureRecord, unprofiled_ns
from diagnose.trace.vocabulary import OPS

MOST_LISTED = 4  # durations that a sentence holds
FAR_OFF = 2.0  # standard errors of a mean
LEAST_STEPS = 20  # full collections come every ten steps or so: fewer steps may hold none
MOST_STEPS = 1000
_FEW_COLLECTIONS = 3  # a library may ask for some when a loop begins
FIRST_STEPS = 5  # of a run: they compile and allocate
MORE_UNPROFILED = another_run(f"diagnose tune --control {LEAST_STEPS} times so many steps without the profiler")


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


@metric("count", needs_gpu=False)
def operators_per_step(m: Measured) -> Value:
    """Operators that begin in a counted step, on all threads, those that others call included."""
    return operators_of_a_step(m)


@metric("ns", needs_gpu=False)
def unprofiled_operator_ns(m: Measured) -> Value:
    """Step without the profiler over its operators: the most that calling one takes on average, as they follow each
    other.
    """
    step_ns = unprofiled_step_time_ns(m)
    return step_ns if isinstance(step_ns, Unknown) else float(step_ns) / max(operators_of_a_step(m), 1.0)


def operators_of_a_step(m: Measured) -> float:
    """Operators that begin in a counted step."""
    return m.timeline.steps.each(len(m.in_steps_of_host(np.flatnonzero(m.timeline.trace.rows_of(*OPS)))))


@metric("ns", needs_gpu=False)
def run_step_time_ns(m: Measured) -> Value:
    """Mean duration on the host of the run's steps without the profiler, behind its first ones: what comes in few steps
    counts with its share.
    """
    timed = _timed_over_run(m)
    return timed if isinstance(timed, Unknown) else float(timed.mean())


@metric("share", "the mean step of the run", needs_gpu=False)
def run_step_error_share(m: Measured) -> Value:
    """Standard error of that mean."""
    timed = _timed_over_run(m)
    return timed if isinstance(timed, Unknown) else float(timed.std(ddof=1) / np.sqrt(len(timed)) / timed.mean())


def _timed_over_run(m: Measured) -> Floats | Unknown:
    every = every_step(m.record)
    timed = every.ns[~every.profiled][FIRST_STEPS:] if every is not None else np.zeros(0)
    if len(timed) < LEAST_STEPS or timed.mean() <= 0:
        return Unknown(f"fewer than {LEAST_STEPS} steps of the run were timed", DIAGNOSE_RUN)
    return timed


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


@metric("flag", needs_gpu=False)
def collects_by_call(m: Measured) -> Value:
    """Whether the job asks for its full collections (gc.collect): Python runs none by itself before several of the
    generation below, ten unless a threshold is set.
    """
    counts = [count for count in m.record.get("steps.collections") or () if count is not None]
    return counts[-1] > max(counts[-2], _FEW_COLLECTIONS) if len(counts) > 1 else m.unrecorded


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


@metric("share", "the mean step", needs_gpu=False)
def mean_step_noise_share(m: Measured) -> Value:
    """How far the mean of the counted steps may lie from that of the job: twice its standard error, by the spread of
    single steps over the root of their number, and that spread at most.
    """
    spread = step_noise_share(m)
    if isinstance(spread, Unknown):
        return spread
    return float(spread) * min(FAR_OFF / np.sqrt(m.timeline.steps.count), 1.0)


@metric("share", "the mean step", needs_gpu=False)
def noise_beside_data_wait_share(m: Measured) -> Value:
    """How far the mean of what the counted steps do besides waiting for data may lie from that of the job: twice its
    standard error. Batches that come in bursts make steps unlike, and not what is left of them without the wait.
    """
    lasted, windows = _durations(m), m.timeline.windows
    if len(lasted) < 2:
        return Unknown("one step is counted", MORE_STEPS)
    left = lasted - iv.coverage(m.attribution.pieces("data-wait"), windows[:, 0], windows[:, 1])
    return min(FAR_OFF * float(left.std(ddof=1)) / np.sqrt(len(left)) / max(float(lasted.mean()), 1), 1.0)


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
    return listed_times(sorted(_durations(m).tolist()))


def listed_times(ns: Sequence[float]) -> str:
    """A few durations each, the shortest and the longest of more."""
    if len(ns) > MOST_LISTED:
        return f"from {spoken(ns[0], 'ns')} to {spoken(ns[-1], 'ns')}"
    *others, last = (spoken(each, "ns") for each in ns)
    return f"{', '.join(others)} and {last}" if others else last


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
