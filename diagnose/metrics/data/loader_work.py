"""The limit of the loader: CPU time of the loading process over the time for which a batch is waited for."""

from diagnose.facts import DIAGNOSE_RUN, Unknown, Value
from diagnose.metrics.data.cores import cores_per_rank
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric

COMPUTES, WAITS = 0.7, 0.3  # of a core: above the one loading is bound by its computing, below the other by its waiting
TAKES_TURNS = 1.3  # cores; what threads of one interpreter use at most that hold its lock
SEVERAL = 1.5
UNMEASURED = Unknown("whether the loader computes or waits for disk and network was not measured", DIAGNOSE_RUN)


@metric("share", "a core", needs_gpu=False)
def loader_cpu_share(m: Measured) -> Value:
    """CPU time over wall time of a loader worker that is waited for, or of all on the cores that they share, whichever
    is more; without workers, of the threads of the training process.
    """
    wall, together = m.record.number("loading.wall_ns"), m.record.number("loading.together_cpu_ns")
    own, workers = m.record.number("loading.cpu_ns"), m.record.number("loading.workers")
    if not wall or own is None or together is None or workers is None:
        reason = m.record.text("loading.unmeasured")
        return Unknown(reason, DIAGNOSE_RUN) if reason else UNMEASURED
    if not workers:
        return together / wall
    cores = cores_per_rank(m)
    shared = workers if isinstance(cores, Unknown) else max(min(workers, float(cores)), 1.0)
    return max(own, together / shared) / wall


@metric("text", needs_gpu=False)
def loader_bound(m: Measured) -> Value:
    """The limit of the loader: "cpu"; "io": it sleeps, or waits for disk or network; "both"; "gil": threads of the
    training process load, and take turns in one interpreter.
    """
    share = loader_cpu_share(m)
    if isinstance(share, Unknown):
        return share
    if m.record.number("loading.workers"):
        return bound_by(float(share))
    return _without_workers(m, float(share))


def bound_by(share: float) -> str:
    """The limit of a loading process by its CPU time, as a share of the time: "cpu", "io" or "both"."""
    return "cpu" if share >= COMPUTES else "io" if share <= WAITS else "both"


def take_turns(share: float, fetching: float, threads: float) -> bool:
    """Whether threads of one process load, and take turns in its interpreter.

    Args:
        share: CPU time of the threads of Python together, over the time.
        fetching: that of the thread that asks for the batch.
        threads: how many were busy in the mean.
    """
    return COMPUTES <= share <= TAKES_TURNS and fetching < COMPUTES and threads >= SEVERAL


def _without_workers(m: Measured, share: float) -> Value:
    wall = m.record.number("loading.wall_ns") or 1.0
    fetching = (m.record.number("loading.cpu_ns") or 0.0) / wall
    elsewhere = (m.record.number("loading.process_cpu_ns") or 0.0) / wall - share
    if take_turns(share, fetching, m.record.number("loading.busy") or 0.0):
        return "gil"
    if share < COMPUTES and elsewhere > WAITS:
        because = (
            "threads that Python does not list compute while a batch is waited for: for the loader, or after a step"
        )
        return Unknown(because, DIAGNOSE_RUN)
    return bound_by(share)
