"""The checkpoint interval to advise, from the cost of a checkpoint and the failure rate of such a job."""

from collections.abc import Callable

from diagnose.facts import Unknown, Value
from diagnose.formulas.checkpoints import best_interval_s, lost_share, published_mtbf_s
from diagnose.metrics.communication.job_size import world_size
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.run.cadence import (
    RUN,
    WRITTEN_SLOWLY,
    checkpoint_ns,
    plain_step_ns,
    run_steps,
    save_interval_steps,
    slowed_by_profiler,
)

WRITTEN_FAST = 0.8  # of the time of the checkpoint in the window others may take: an estimate
_DIGITS = 2  # of an interval in steps


@metric("flag", needs_gpu=False)
def mtbf_is_stated(m: Measured) -> Value:
    """Whether the time between failures of the job is stated (--mtbf-hours); else it is by published rates."""
    return m.settings.mtbf_hours is not None


@metric("ns", needs_gpu=False)
def job_mtbf_ns(m: Measured) -> Value:
    """Time between failures of the whole job: as stated, else the shortest of published rates for so many GPUs.

    The published ones are of Kokolis et al. 2025 and the Llama Team 2024; a job of fewer than 8 ranks counts as 8.
    """
    return _mtbf_s(m)[0] * 1e9


@metric("ns", needs_gpu=False)
def most_job_mtbf_ns(m: Measured) -> Value:
    """The same by the longest of the published rates."""
    return _mtbf_s(m)[1] * 1e9


def _mtbf_s(m: Measured) -> tuple[float, float]:
    if m.settings.mtbf_hours is not None:
        return 3600 * m.settings.mtbf_hours, 3600 * m.settings.mtbf_hours
    ranks = world_size(m)
    return published_mtbf_s(m.job.ranks if isinstance(ranks, Unknown) else int(ranks))


@metric("count", needs_gpu=False)
def best_save_interval_steps(m: Measured) -> Value:
    """Steps between checkpoints for which saving and work done again take least: sqrt(2 x cost x job_mtbf_ns).

    At most run_steps, since a run that is shorter saves at its end alone.
    """
    return _steps(m, _mtbf_s(m)[0])


@metric("count", needs_gpu=False)
def most_best_save_interval_steps(m: Measured) -> Value:
    """The same with most_job_mtbf_ns."""
    return _steps(m, _mtbf_s(m)[1])


@metric("ns", needs_gpu=False)
def best_save_interval_ns(m: Measured) -> Value:
    """Time between checkpoints of best_save_interval_steps."""
    steps = best_save_interval_steps(m)
    return steps if isinstance(steps, Unknown) else float(steps) * _step_s(m) * 1e9


def _step_s(m: Measured) -> float:
    """Seconds of the steps between two checkpoints, without the profiler if that is known."""
    return max(plain_step_ns(m), 1.0) / slowed_by_profiler(m) / 1e9


def _steps(m: Measured, mtbf_s: float) -> float | Unknown:
    cost_ns = checkpoint_ns(m)
    if isinstance(cost_ns, Unknown):
        return cost_ns
    steps = best_interval_s(float(cost_ns) / 1e9, mtbf_s) / _step_s(m)
    rounded, run = max(float(f"{steps:.{_DIGITS - 1}e}"), 1.0), run_steps(m)
    return rounded if isinstance(run, Unknown) else min(rounded, float(run))


@metric("share", RUN, needs_gpu=False)
def least_spared_run_share(m: Measured) -> Value:
    """Part of the run that best_save_interval_steps saves at least, repeated work included; 0 if it saves none.

    Assumes checkpoints a fifth shorter than the one in the window, and the less favourable failure rate.
    """
    return _spared(m, WRITTEN_FAST, 1.0, min)


@metric("share", RUN, needs_gpu=False)
def most_spared_run_share(m: Measured) -> Value:
    """The same at most: checkpoints are half as long again, and steps as fast as without the profiler."""
    return _spared(m, WRITTEN_SLOWLY, slowed_by_profiler(m), max)


def _spared(m: Measured, longer: float, slowed: float, of: Callable[[float, float], float]) -> float | Unknown:
    steps, cost_ns, best = save_interval_steps(m), checkpoint_ns(m), best_save_interval_steps(m)
    for value in (steps, cost_ns, best):
        if isinstance(value, Unknown):
            return value
    step_s, cost_s = max(plain_step_ns(m), 1.0) / slowed / 1e9, longer * float(cost_ns) / 1e9  # type: ignore[arg-type]
    now_s, then_s = float(steps) * step_s, float(best) * step_s  # type: ignore[arg-type]
    spared = (lost_share(now_s, cost_s, mtbf) - lost_share(then_s, cost_s, mtbf) for mtbf in _mtbf_s(m))
    return min(max(of(*spared), 0.0), 1.0)
