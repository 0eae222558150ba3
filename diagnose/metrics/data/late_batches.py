"""Batches that come late now and then: the workers that would load past them, and what these leave of the waiting."""

from collections.abc import Callable
from math import ceil, gcd

from diagnose.facts import Unknown, Value
from diagnose.metrics.data.loader import loader_worker_count, prefetched_batches
from diagnose.metrics.data.loader_workers import loader_worker_room
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.series.phase import SlowPhase

PREFETCHED = 4  # batches ahead of each worker, twice what torch takes
MOST_WORKERS = 8
WORKERS = 4  # where nothing says how many the cores feed


@metric("count", needs_gpu=False)
def workers_past_late_batches(m: Measured) -> Value:
    """DataLoader workers that load all samples at the rate of the usual steps while each late batch holds up one, as
    far as there is room for them; those that run at least. Batches go to workers in turn: if late ones come at a
    regular distance, the number shares no factor with it, so that no worker loads them all.
    """
    phase, running = m.slow_phase, loader_worker_count(m)
    if isinstance(phase, Unknown):
        return phase
    if isinstance(running, Unknown):
        return running
    room = loader_worker_room(m)
    wanted = ceil(_loading_ns(m, phase) / max(phase.every * phase.usual_ns, 1.0)) + 1
    most = min(wanted, MOST_WORKERS, WORKERS if isinstance(room, Unknown) else round(float(room)))
    taken = (count for count in range(most, 1, -1) if phase.irregular or gcd(count, phase.every) == 1)
    return max(round(float(running)), next(taken, most))


@metric("share", "the wait for late batches", needs_gpu=False)
def least_late_wait_left_share(m: Measured) -> Value:
    """Share of this wait that is left if those workers load late batches at the same time."""
    return _left(m, lambda phase, ns, workers: ns / max(workers, 1.0) - phase.every * phase.usual_ns)


@metric("share", "the wait for late batches", needs_gpu=False)
def most_late_wait_left_share(m: Measured) -> Value:
    """Share of this wait that is left if late batches are loaded one by one, while steps use up what is ready."""
    return _left(m, lambda phase, ns, workers: ns - PREFETCHED * workers * phase.usual_ns)


def _left(m: Measured, wait_ns: Callable[[SlowPhase, float, float], float]) -> Value:
    """The share of the wait that is left, by what is left of the nanoseconds of loading with so many workers."""
    phase, workers = m.slow_phase, workers_past_late_batches(m)
    if isinstance(workers, Unknown) or isinstance(phase, Unknown):
        return workers
    left = wait_ns(phase, _loading_ns(m, phase), float(workers))
    return min(max(left, 0.0) / max(phase.more_ns, 1.0), 1.0)


def _loading_ns(m: Measured, phase: SlowPhase) -> float:
    """The time in which a late batch is loaded: its wait, and the steps that had their batch ready meanwhile."""
    running, ahead = loader_worker_count(m), prefetched_batches(m)
    ready = 0.0 if isinstance(running, Unknown) or isinstance(ahead, Unknown) else float(running) * float(ahead)
    return phase.more_ns + min(ready, phase.every) * phase.usual_ns
