"""The limit of the loader: CPU time and run delay of who loads, over the time for which a batch is waited for.

`what_bounds` is the only judge of it; `WORDS` say what each answer means, and every report asks for both here.
"""

from typing import Literal

import msgspec

from diagnose.facts import DIAGNOSE_RUN, Capture, Unknown, Value, another_run, nothing_helps
from diagnose.metrics.data.cores import cores_per_rank
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric

Bound = Literal["cpu", "core", "io", "both", "gil"]
COMPUTES, WAITS = (
    0.7,
    0.3,
)  # of the time: above the one it is computing, or no core, that bounds; below the other waiting
TAKES_TURNS = 1.3  # cores; what threads of one interpreter use at most that hold its lock
SEVERAL = 1.5
WORDS: dict[str, str] = {
    "cpu": "computes",
    "core": "is ready and has no core",
    "io": "waits for disk, network or a timer",
    "both": "computes a part of the time and waits for the rest",
    "gil": "takes turns in one interpreter (the GIL)",
}
UNMEASURED = "whether the loader computes or waits for disk and network was not measured"
NO_DELAY = "the record does not say how long loading was ready and had no core"
MEASURE = another_run("measure it with diagnose data")


class LoadingTime(msgspec.Struct, frozen=True):
    """Time of who loads, as shares of the time for which a batch is waited for.

    Attributes:
        computes: CPU time of the process or thread that is waited for.
        ready: time for which that one was ready and had no core; None if it is not known.
        together: CPU time of all that load, over the cores that they share.
        cores: the same in cores.
    """

    computes: float
    ready: float | None = None
    together: float = 0.0
    cores: float = 0.0


def what_bounds(time: LoadingTime) -> Bound | None:
    """The limit of a loading process; None if its run delay is not known and decides.

    Waiting for disk, network or a timer is what neither computing nor a missing core explains.
    """
    busy = max(time.computes, time.together)
    if time.ready is None:
        if busy >= COMPUTES:
            return "cpu"
        return "both" if busy > WAITS else "io" if time.cores <= WAITS else None
    explained = time.computes + time.ready
    if explained <= WAITS:
        return "io"
    if time.ready >= WAITS and time.ready >= time.computes:
        return "core"
    return "cpu" if max(explained, busy) >= COMPUTES else "both"


def take_turns(share: float, fetching: float, threads: float) -> bool:
    """Whether threads of one process load, and take turns in its interpreter.

    Args:
        share: CPU time of the threads of Python together, over the time.
        fetching: that of the thread that asks for the batch.
        threads: how many were busy in the mean.
    """
    return COMPUTES <= share <= TAKES_TURNS and fetching < COMPUTES and threads >= SEVERAL


@metric("share", "a core", needs_gpu=False)
def loader_cpu_share(m: Measured) -> Value:
    """CPU time over wall time of a loader worker that is waited for, or of all on the cores that they share, whichever
    is more; without workers, of the threads of the training process.
    """
    time = _time(m)
    return time if isinstance(time, Unknown) else max(time.computes, time.together)


@metric("share", "the time", needs_gpu=False)
def loader_ready_share(m: Measured) -> Value:
    """Time for which a loader worker that is waited for, or without workers the loading thread, was ready and had no
    core, over the time of the wait.
    """
    time = _time(m)
    if isinstance(time, Unknown):
        return time
    return _no_delay(m) if time.ready is None else time.ready


@metric("text", needs_gpu=False)
def loader_bound(m: Measured) -> Value:
    """The limit of the loader: "cpu": it computes; "core": it is ready and has no core; "io": neither explains the
    time, so that it waits for disk, network or a timer; "both"; "gil": threads of the training process load, and take
    turns in one interpreter.
    """
    time = _time(m)
    if isinstance(time, Unknown):
        return time
    if not m.record.number("loading.workers") and (special := _without_workers(m, time)) is not None:
        return special
    return what_bounds(time) or _no_delay(m)


@metric("text", needs_gpu=False)
def loader_unmeasured(m: Measured) -> Value:
    """The reason why what bounds the loader is not known, in a trace that diagnose run took."""
    bound = loader_bound(m)
    if not isinstance(bound, Unknown):
        return Unknown("it is known what bounds the loader", nothing_helps("it is known"))
    return bound.because if m.record else m.unrecorded


@metric("count", needs_gpu=False)
def loader_worker_cores(m: Measured) -> Value:
    """CPU cores on which the loader workers may run, all of them together, by their affinity."""
    cores = m.record.number("loading.worker_cores")
    if cores is None:
        return Unknown("the cores on which loader workers may run were not read", _capture(m))
    return cores


@metric("flag", needs_gpu=False)
def loader_workers_bound(m: Measured) -> Value:
    """Whether loader workers may run on fewer cores than the rank has: something has bound them."""
    mine, rank = loader_worker_cores(m), cores_per_rank(m)
    if isinstance(mine, Unknown) or isinstance(rank, Unknown):
        return mine if isinstance(mine, Unknown) else rank
    return float(mine) < min(float(rank), m.record.number("loading.workers") or 0)


def _time(m: Measured) -> LoadingTime | Unknown:
    record = m.record
    wall, together = record.number("loading.wall_ns"), record.number("loading.together_cpu_ns")
    own, workers, ready = (
        record.number("loading.cpu_ns"),
        record.number("loading.workers"),
        record.number("loading.ready_ns"),
    )
    if not wall or own is None or together is None or workers is None:
        return Unknown(record.text("loading.unmeasured") or UNMEASURED, _capture(m))
    shared = min(workers, cores_of_workers(m) or workers) if workers else 1.0
    of_all = together / max(shared, 1.0)
    computes = own if workers else together
    delay = None if ready is None else ready / wall
    return LoadingTime(computes / wall, delay, of_all / wall, together / wall)


def cores_of_workers(m: Measured) -> float | None:
    """The rank's cores that its loader workers may use; None if neither is known."""
    known = [float(c) for c in (cores_per_rank(m), loader_worker_cores(m)) if not isinstance(c, Unknown)]
    return min(known, default=None)


def _without_workers(m: Measured, time: LoadingTime) -> Value | None:
    """The limit that only the training process has: threads that take turns, or threads that Python does not list."""
    wall = m.record.number("loading.wall_ns") or 1.0
    fetching = (m.record.number("loading.cpu_ns") or 0.0) / wall
    elsewhere = (m.record.number("loading.process_cpu_ns") or 0.0) / wall - time.computes
    if take_turns(time.computes, fetching, m.record.number("loading.busy") or 0.0):
        return "gil"
    if time.computes < COMPUTES and elsewhere > WAITS:
        because = (
            "threads that Python does not list compute while a batch is waited for: for the loader, or after a step"
        )
        return Unknown(because, _capture(m))
    return None


def _no_delay(m: Measured) -> Unknown:
    return Unknown(m.record.text("loading.ready_unmeasured") or NO_DELAY, _capture(m))


def _capture(m: Measured) -> Capture:
    """The capture that would show it: a record already comes from diagnose run."""
    return MEASURE if m.record else DIAGNOSE_RUN
