"""The CPU cores of the host, and what of them is left for DataLoader workers."""

from math import floor

from diagnose.facts import Unknown
from diagnose.metrics.registry import Measured, Value, metric

NO_CORES = Unknown("the record does not say how many cores the host has", "capture with diagnose run")
NO_LOCAL_RANKS = Unknown(
    "the record does not say how many ranks share the host's cores", "start the ranks with torchrun, srun or mpirun"
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
    return min(usable, *(cores / max(ranks, 1) for cores in together if cores is not None))


@metric("count", needs_gpu=False)
def loader_worker_room(m: Measured) -> Value:
    """DataLoader workers that the cores of one rank leave room for: all of them but one, which trains."""
    cores = cores_per_rank(m)
    return cores if isinstance(cores, Unknown) else max(floor(float(cores)) - 1, 0)
