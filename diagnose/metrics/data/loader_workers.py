"""The DataLoader workers that a rank's cores can feed, how many of them a step needs, and what so many cannot hide."""

from math import ceil, floor, inf

import numpy as np

from diagnose.attribution.causes import HOST_WORK
from diagnose.facts import STEP, Unknown, Value, nothing_helps
from diagnose.metrics.data.cores import cores_per_rank
from diagnose.metrics.data.loader import loader_shards, loader_worker_count, workers_repeat_stream
from diagnose.metrics.data.loader_passes import (
    COST_CROWDED,
    COST_UP_TO,
    hand_over_ns,
    usual_wait_ns,
    worker_batch_cpu_ns,
    workers_cost_more,
)
from diagnose.metrics.data.loader_work import (
    cores_of_workers,
    loader_bound,
    loader_cpu_share,
    loader_worker_cores,
    loader_workers_bound,
)
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.run.capture import profiler_s
from diagnose.metrics.run.setup import batches_of_a_step
from diagnose.metrics.run.usual import usual_step_ns
from diagnose.trace.record import unprofiled_ns

LEAST_THAT_GOES = 0.3  # of the wait, when loading has to leave the run: an estimate
LEAST_SPARE_CORES = 0.25  # while the training thread waits; workers that only wait need no more
LEAST_CPU_SHARE = 0.02  # of a core: handing a batch over takes time as well
NEARLY_A_WORKER = 0.05  # shares of a core are measured no better: 100.3 % is a whole one
LOST_TO_EACH, LEAST_EFFICIENCY = 0.1, 0.7  # workers that use the same disk, network and cores, at worst: an estimate
PROFILED = 1.5  # times as long the host's work may take under the profiler, unseen while the step waits for workers
HANDING_OVER = 1.3  # slower host at worst, by a pair of traces with 0 and 4 workers
HANDING_OVER_CROWDED = 1.5  # if they leave no core idle: an estimate
HALF_A_CORE = 0.5  # at worst, of a worker that computes with no core idle: a guest may take two threads for cores
MOST_WAITING = 0.95  # of a step: it works a little, too
MOST_WORKERS, MOST_GROWTH = 16, 4  # each takes memory of the host, and files that are open
NO_WAIT = Unknown("the step does not wait for data", nothing_helps("there is no wait to hide"))


@metric("count", needs_gpu=False)
def loader_worker_room(m: Measured) -> Value:
    """DataLoader workers that the cores of one rank can feed, with one core left for training: each takes the measured
    share of a core, or a whole one if that is not known; no more than the cores that workers may use if they compute.
    """
    cores, share, bound = cores_per_rank(m), loader_cpu_share(m), loader_bound(m)
    if isinstance(cores, Unknown):
        return cores
    if isinstance(share, Unknown) or bound in ("gil", "core"):
        return min(workers_fed(float(cores)), floor(cores_of_workers(m) or 0))
    fed = workers_fed(float(cores), float(share), waits=bound == "io")
    return fed if bound == "io" else min(fed, _shared_by(cores_of_workers(m) or float(cores), float(share)))


def workers_fed(cores: float, share: float | None = None, waits: bool = False) -> int:
    """Workers that a number of cores feed, with one core left for training.

    Args:
        cores: cores of a rank.
        share: share of a core that a worker takes; a whole one if not known.
        waits: whether workers mostly wait, so that any host has enough of a core for them.
    """
    if share is None:
        return max(floor(cores) - 1, 0)
    spare = max(cores - 1, LEAST_SPARE_CORES if waits else 0.0)
    return floor(spare / min(max(share, LEAST_CPU_SHARE), max(cores, 1.0)) + NEARLY_A_WORKER)


def _shared_by(cores: float, share: float) -> int:
    """Workers that so many cores feed, none of them left for training."""
    return floor(cores / min(max(share, LEAST_CPU_SHARE), max(cores, 1.0)) + NEARLY_A_WORKER)


@metric("count", needs_gpu=False)
def advised_loader_workers(m: Measured) -> Value:
    """DataLoader workers that have a batch ready twice as fast as steps take it, as far as there is room for them and
    the stream has shards for them; as many as run where more would cost more than they hide.
    """
    wait, running = m.share("data-wait"), _running(m)
    if not wait:
        return NO_WAIT
    if workers_cost_more(m) is True:
        return running
    most = max(MOST_WORKERS, MOST_GROWTH * running)
    wanted = min(most, ceil(2 * max(running, 1) / max(0.05, 1 - wait)))
    limits = (loader_worker_room(m), loader_shards(m))
    return min([wanted, *(round(float(limit)) for limit in limits if not isinstance(limit, Unknown))])


@metric("share", "the wait for data", needs_gpu=False)
def least_data_wait_left_share(m: Measured) -> Value:
    """Share of the wait for data that remains with the advised workers, at least; 0 if loading has to leave the run
    instead, or if the cores are not known.
    """
    return _left(m, without_room=0.0, worst=False)


@metric("share", "the wait for data", needs_gpu=False)
def most_data_wait_left_share(m: Measured) -> Value:
    """Share of the wait for data that remains at most: with workers that hinder each other, with a single one if the
    cores are not known, and most of the wait if loading has to leave the run, since the part of the host's disk or
    network is not known.
    """
    return _left(m, without_room=1 - LEAST_THAT_GOES, worst=True)


@metric("share", "the wait for data", needs_gpu=False)
def least_refused_wait_left_share(m: Measured) -> Value:
    """Share of the wait for data that remains at least where the data takes no workers as it is: what they leave of a
    stream that is split between them, else none.
    """
    return least_data_wait_left_share(m) if _to_be_split(m) else 0.0


@metric("share", "the wait for data", needs_gpu=False)
def most_refused_wait_left_share(m: Measured) -> Value:
    """The same, at most: of other data most, since the part of the host's disk or network is not known."""
    return most_data_wait_left_share(m) if _to_be_split(m) else 1 - LEAST_THAT_GOES


def _to_be_split(m: Measured) -> bool:
    """Whether the loader reads a stream that workers could share, and has cores for them."""
    room = loader_worker_room(m)
    return workers_repeat_stream(m) is True and not isinstance(room, Unknown) and float(room) >= 1


def _left(m: Measured, without_room: float, worst: bool) -> Value:
    """The share of the wait that is left: a batch takes the wait to load without workers, and as many steps as workers
    with them.

    In the worst case, handing batches over makes the rest of the step longer, which leaves less of the loading to wait
    for.
    """
    wait, advised, running = m.share("data-wait"), advised_loader_workers(m), _running(m)
    if isinstance(advised, Unknown):
        return advised
    unsized = isinstance(loader_worker_room(m), Unknown) and not running
    if unsized and not worst:
        return 0.0
    workers = 1.0 if unsized else float(advised)  # any host has a second core
    if workers <= running and loader_workers_bound(m) is True and loader_bound(m) != "io":
        return _unbound(m, worst)
    if workers <= running:
        return _in_process(m, worst) if running and workers_cost_more(m) is True else without_room
    if not worst:
        rest = 1 - wait - (1 - _fastest_host(m, workers)) * m.share(*HOST_WORK)
        return min(max(max(wait, running) / workers - rest, 0.0) / wait, 1.0)
    waits = _share_without_profiler(m, wait)
    host = m.share(*HOST_WORK) * (1 - waits) / (1 - wait) if wait < 1 else 0.0
    batch, rest = max(waits, running) / (workers * _least_efficiency(m, workers)), 1 - waits
    return min(max(batch - rest - (_slower_host(m, workers) - 1) * host, 0.0) / waits, 1.0)


def _unbound(m: Measured, worst: bool) -> float:
    """The share of the wait that is left if workers that make a batch in a step may use all cores; at worst all but the
    one of the training thread.
    """
    wait, cores, mine = m.share("data-wait"), cores_per_rank(m), loader_worker_cores(m)
    if isinstance(cores, Unknown) or isinstance(mine, Unknown):
        return 1.0 if worst else 0.0
    faster = max((float(cores) - worst) / max(float(mine), 1.0), 1.0)
    return min(max(1 / faster - (1 - wait), 0.0) / wait, 1.0)


def _in_process(m: Measured, worst: bool) -> float:
    """The share of the wait that is left if the training process loads what its workers compute; all of it at worst."""
    made, waited = worker_batch_cpu_ns(m), usual_wait_ns(m)
    return 1.0 if worst or isinstance(made, Unknown) or not waited else min(float(made) / waited, 1.0)


def _share_without_profiler(m: Measured, wait: float) -> float:
    """The wait as a share of a step without the profiler, which lengthens the rest and hides how long a batch takes."""
    if not unprofiled_ns(m.record):
        return wait
    windows = m.attribution.windows
    longer = float(np.median(windows[:, 1] - windows[:, 0])) / usual_step_ns(m)
    return min(max(wait * longer, wait), max(wait, MOST_WAITING))


@metric("factor", needs_gpu=False)
def least_host_time_factor(m: Measured) -> Value:
    """Host time of a step with the advised workers over the present one, at best. If workers already run, the profiler
    may lengthen the host's work without lengthening the step, which waits for them. On a CPU the training thread takes
    what handing over batches costs.
    """
    advised = advised_loader_workers(m)
    return advised if isinstance(advised, Unknown) else _fastest_host(m, float(advised))


def _fastest_host(m: Measured, workers: float) -> float:
    if _running(m):
        return max(1 - _profiler_part(m), 1 / PROFILED)
    if m.timeline.has_gpu:
        return 1.0
    taken = _handed_over(m, COST_CROWDED if _crowded(m, workers) else 1.0) if workers else None
    return 1.0 if taken is None else min(1 + taken, _slower_host(m, workers))


def _profiler_part(m: Measured) -> float:
    """The profiler's part of the host's time at most: with a GPU, where it times launches too, it may be any."""
    host_s = m.share(*HOST_WORK) * m.step_s
    return 1.0 if m.timeline.has_gpu or not host_s else profiler_s(m) / host_s


@metric("factor", needs_gpu=False)
def most_host_time_factor(m: Measured) -> Value:
    """Host time of a step with the advised workers over that of now, at worst: batches are handed over, on cores that
    the workers use too.
    """
    advised = advised_loader_workers(m)
    if isinstance(advised, Unknown):
        return advised
    return _slower_host(m, float(advised)) if float(advised) > _running(m) else 1.0


@metric("share", STEP, needs_gpu=False)
def worker_hand_over_share(m: Measured) -> Value:
    """Share of the step that handing over the batches of the advised workers, beyond those that run, costs at worst; 0
    if no more workers are advised.
    """
    advised = advised_loader_workers(m)
    if isinstance(advised, Unknown):
        return advised
    more = float(advised) > _running(m)
    return (_slower_host(m, float(advised)) - 1) * m.share(*HOST_WORK) if more else 0.0


def _slower_host(m: Measured, workers: float) -> float:
    """The host's time with so many workers over that of now, at worst; for a small batch, by what handing it over
    takes.
    """
    if _crowded(m, workers):
        return HANDING_OVER_CROWDED
    taken = _handed_over(m, COST_UP_TO)
    return HANDING_OVER if taken is None else min(HANDING_OVER, 1 + taken)


def _handed_over(m: Measured, times: float) -> float | None:
    """Handing over the batches of a step, of the host's time in it, where each takes so many times what is estimated;
    None if their bytes were not seen.
    """
    each, host = hand_over_ns(m), m.share(*HOST_WORK)
    if each is None or not host:
        return None
    return times * 1e-9 * each * batches_of_a_step(m) / (host * m.step_s)


def _least_efficiency(m: Measured, workers: float) -> float:
    if not _crowded(m, workers):
        return max(1 - LOST_TO_EACH * workers, LEAST_EFFICIENCY)
    bound = loader_bound(m)
    return LEAST_EFFICIENCY if isinstance(bound, Unknown) or bound == "io" else HALF_A_CORE


def _crowded(m: Measured, workers: float) -> bool:
    """Whether workers and training leave no core idle. Workers that mostly wait take the CPU time of a batch in each
    step.
    """
    cores = cores_per_rank(m)
    busy = _computing(m) if loader_bound(m) == "io" else workers
    return not isinstance(cores, Unknown) and min(workers, busy) + 1 >= float(cores)


def _computing(m: Measured) -> float:
    """Workers that compute at a time if no step waits for them: of loading, the share for which they use a core."""
    share, wait = loader_cpu_share(m), m.share("data-wait")
    return inf if isinstance(share, Unknown) or wait >= 1 else float(share) * max(wait, _running(m)) / (1 - wait)


def _running(m: Measured) -> int:
    count = loader_worker_count(m)
    return 0 if isinstance(count, Unknown) else int(count)
