"""Waiting for a CPU core: how much of a step, and who holds the cores meanwhile."""

import numpy as np

from diagnose.attribution.causes import CORE_WAIT
from diagnose.attribution.leading import NAMES_THE_CLASS, NEAR
from diagnose.facts import Unknown, Value
from diagnose.metrics.data.cores import NO_LOCAL_RANKS, cores_per_rank
from diagnose.metrics.data.loader import loader_worker_count
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.run.clocks import read
from diagnose.metrics.run.environment import cpu_threads
from diagnose.trace.readings import limit, process_tree_cpu_ns, reading
from diagnose.trace.record import core_times

NS = 1e9
NOBODY, JOB, OTHERS, QUOTA, UNTOLD = "nobody", "job", "others", "quota", "not known"
MUCH_THROTTLED = 0.05  # of the wall time: a quota holds the threads back
MUCH_TAKEN = 0.10  # of the cores: less of other processes starves nobody


@metric("share", "the wall time", needs_gpu=False)
def core_wait_share(m: Measured) -> Value:
    """Time in which the training thread could run and waited for a core: of the step, where the capture counted it for
    each step, else of the median second of the window.
    """
    return m.share(CORE_WAIT) if counted_by_step(m) else read(m, _share_of_readings(m))


def counted_by_step(m: Measured) -> bool:
    """Whether the capture counted the waiting for cores in each step, so that it is a line of the breakdown.

    Steps that the profiler distorts have no such line.
    """
    if m.job.distortion is not None:
        return False
    times = core_times(m.record, m.timeline.steps.numbers)
    return bool(len(times)) and bool(np.isfinite(times).all())


def _share_of_readings(m: Measured) -> float | None:
    waited = reading(m.record, "waited_for_core_ns", "rates")
    return None if waited is None else min(waited.median / NS, 1.0)


@metric("share", "the wall time", needs_gpu=False)
def quota_wait_share(m: Measured) -> Value:
    """Time in which the cgroup's quota held threads of the container back; the median second of the window."""
    held = reading(m.record, "throttled_ns", "rates")
    return read(m, None if held is None else min(held.median / NS, 1.0))


@metric("share", "the cores of the process", needs_gpu=False)
def others_cpu_share(m: Measured) -> Value:
    """CPU time on the process's cores that neither it, its children nor the job's other ranks on the host use."""
    cores, busy = limit(m.record, "cores_allowed"), reading(m.record, "allowed_cores_cpu_ns", "rates")
    own = _of_job(m)
    if not cores or busy is None or own is None:
        return read(m, None)
    return min(max(busy.median - own, 0.0) / NS / cores, 1.0)


def _of_job(m: Measured) -> float | None:
    """CPU time per second of the job on this host; None if it is not known of all its ranks there."""
    ranks = m.record.number("cores.local_ranks")
    if ranks == 1:
        return process_tree_cpu_ns(m.record)
    told = m.job.cpu_ns_of_hosts.get(m.record.text("host") or "", ())
    return sum(told) if told and len(told) == ranks else None


@metric("text", needs_gpu=False)
def crowded_by(m: Measured) -> Value:
    """The holder of the cores that the training thread waits for: "job" (its own threads, workers and ranks), "others"
    (other processes), "quota" (the cgroup's), "not known", or "nobody" if the thread hardly waits.
    """
    waits = core_wait_share(m)
    if isinstance(waits, Unknown):
        return waits
    if float(waits) < NEAR:
        return NOBODY
    held = quota_wait_share(m)
    if not isinstance(held, Unknown) and float(held) > MUCH_THROTTLED:
        return QUOTA
    others, own = others_cpu_share(m), _of_job(m)
    if isinstance(others, Unknown) or own is None:
        return UNTOLD
    if float(others) < MUCH_TAKEN:
        return JOB
    beside = max(own / NS - _on_core_share(m, float(waits)), 0.0)  # cores that the job holds without this thread
    return OTHERS if float(others) * (limit(m.record, "cores_allowed") or 0) > beside else JOB


def _on_core_share(m: Measured, waits: float) -> float:
    """The part of the time in which the threads of the step are on a core; without a count, all but their waiting."""
    if not counted_by_step(m):
        return 1 - waits
    on_core = core_times(m.record, m.timeline.steps.numbers)[:, 0].sum()
    return min(float(on_core) / max(m.attribution.total_ns, 1), 1.0)


@metric("flag", needs_gpu=False)
def too_busy_to_judge(m: Measured) -> Value:
    """Whether other processes keep the training thread from a core for so much of the step that they lead it."""
    waits = core_wait_share(m)
    return waits if isinstance(waits, Unknown) else float(waits) >= NAMES_THE_CLASS and crowded_by(m) == OTHERS


@metric("count", needs_gpu=False)
def local_ranks(m: Measured) -> Value:
    """Ranks of the job on this host."""
    ranks = m.record.number("cores.local_ranks")
    return m.unrecorded if not m.record else NO_LOCAL_RANKS if ranks is None else ranks


@metric("count", needs_gpu=False)
def cores_of_host(m: Measured) -> Value:
    """CPU cores of the host."""
    return read(m, limit(m.record, "cores"))


@metric("count", needs_gpu=False)
def cores_usable(m: Measured) -> Value:
    """CPU cores that the process may use by its affinity."""
    return m.recorded(m.record.number("cores.usable"))


@metric("flag", needs_gpu=False)
def bound_within_job(m: Measured) -> Value:
    """Whether the process may use fewer cores than its even share of those of the process that started it: something
    in the job has bound it.
    """
    usable, shared, ranks = (m.record.number(f"cores.{name}") for name in ("usable", "shared", "local_ranks"))
    if usable is None or shared is None or ranks is None:
        return m.unrecorded
    return usable < shared // max(ranks, 1)


@metric("text", needs_gpu=False)
def core_demand(m: Measured) -> Value:
    """The threads and workers of the job and the cores that they share, such as "2 ranks of 16 threads on 2 cores"."""
    ranks, threads, workers, cores = local_ranks(m), cpu_threads(m), loader_worker_count(m), cores_per_rank(m)
    if isinstance(ranks, Unknown):
        return ranks
    if isinstance(threads, Unknown):
        return threads
    if isinstance(cores, Unknown):
        return cores
    each = _counted(threads, "thread")
    if not isinstance(workers, Unknown) and workers:
        each += f" and {_counted(workers, 'loader worker')}"
    of_ranks = f"{_counted(ranks, 'rank')} of {each}" if float(ranks) > 1 else each
    of_host = cores_of_host(m)
    together = round(float(cores) * float(ranks), 2)
    if bound_within_job(m) is True and not isinstance(of_host, Unknown):
        return f"{of_ranks} on {together:g} of the host's {float(of_host):g} cores"
    return f"{of_ranks} on {_counted(together, 'core')}"


def _counted(number: Value, what: str) -> str:
    return f"{float(number):g} {what}{'' if number == 1 else 's'}"  # type: ignore[arg-type]


@metric("count", needs_gpu=False)
def threads_for_cores(m: Measured) -> Value:
    """CPU threads that a rank's cores hold: one for each, and one at least."""
    cores = cores_per_rank(m)
    return cores if isinstance(cores, Unknown) else max(int(float(cores)), 1)
