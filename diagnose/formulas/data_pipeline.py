"""The input pipeline against the accelerator that it feeds."""

import math
from collections.abc import Iterable


def cores_of_rank(usable: float, local_ranks: float, together: Iterable[float | None]) -> float:
    """CPU cores of one rank: those of its affinity, at most its even share of each limit that the ranks have in common.

    Args:
        usable: cores that the affinity of the rank allows.
        local_ranks: ranks on this host.
        together: cores of the host and of the cgroup's quota; None for one that is not known.
    """
    return min([usable, *(cores / max(local_ranks, 1) for cores in together if cores is not None)])


def shared_s(seconds: float, workers: int) -> float:
    """Seconds for each batch when workers share the work evenly."""
    return seconds / workers


def workers_needed(batch_s: float, step_s: float) -> int:
    """Fewest workers that prepare batches as fast as steps use them."""
    return math.ceil(batch_s / step_s)
