"""The CPU cores of one rank."""

from diagnose.facts import DIAGNOSE_RUN, Unknown, Value, another_run
from diagnose.formulas.data_pipeline import cores_of_rank
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric

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
    return cores_of_rank(usable, ranks, together)
