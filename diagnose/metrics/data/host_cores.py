"""The CPU cores of the host, what of them is left for DataLoader workers, and what so many cannot hide."""

from math import floor

from diagnose.facts import DIAGNOSE_RUN, Unknown, Value, another_run, nothing_helps
from diagnose.metrics.data.loader import loader_worker_count
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric

LEAST_THAT_GOES = 0.2  # of the wait, when loading has to leave the run: an estimate
NO_CORES = Unknown("the record does not say how many cores the host has", DIAGNOSE_RUN)
NO_LOCAL_RANKS = Unknown(
    "the record does not say how many ranks share the host's cores",
    another_run("start the ranks with torchrun, srun or mpirun"),
)


@metric("count", needs_gpu=False)
def cores_per_rank(m: Measured) -> Value:
    """CPU cores of one rank: its affinity, and at most its even share of the host's cores and of the cgroup's quota."""
    record = m.record
    usable, ranks = record.number("cores.usable"), record.number("cores.local_ranks")
    if usable is None:
        return NO_CORES
    if ranks is None:
        return NO_LOCAL_RANKS
    together = (record.number("cores.shared"), record.number("cores.quota"))
    return min([usable, *(cores / max(ranks, 1) for cores in together if cores is not None)])


@metric("count", needs_gpu=False)
def loader_worker_room(m: Measured) -> Value:
    """DataLoader workers that the cores of one rank leave room for: all of them but one, which trains."""
    cores = cores_per_rank(m)
    return cores if isinstance(cores, Unknown) else max(floor(float(cores)) - 1, 0)


@metric("share", "the wait for data", needs_gpu=False)
def least_data_wait_left_share(m: Measured) -> Value:
    """What is left of the wait for data with workers on all cores that the rank has room for; 0 where loading has to
    leave the run instead, or where the cores are not known.
    """
    return _left(m, without_room=0.0)


@metric("share", "the wait for data", needs_gpu=False)
def most_data_wait_left_share(m: Measured) -> Value:
    """The same, but most of the wait where loading has to leave the run: how much of it the host's disk or network
    takes is not known.
    """
    return _left(m, without_room=1 - LEAST_THAT_GOES)


def _left(m: Measured, without_room: float) -> Value:
    """A batch takes the wait to load without workers, and as many steps as there are workers with them."""
    wait, room, workers = m.share("data-wait"), loader_worker_room(m), loader_worker_count(m)
    running = 0.0 if isinstance(workers, Unknown) else float(workers)
    if not wait:
        return Unknown("the step does not wait for data", nothing_helps("there is no wait to hide"))
    if isinstance(room, Unknown):
        return 0.0
    if float(room) <= running:
        return without_room
    batch = max(wait, running) / float(room)
    return min(max(batch - (1 - wait), 0.0) / wait, 1.0)
