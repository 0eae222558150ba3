"""The input pipeline against the accelerator that it feeds."""

import math
from collections.abc import Iterable

INT64_BYTES = 8


def cores_of_rank(usable: float, local_ranks: float, together: Iterable[float | None]) -> float:
    """CPU cores of one rank: those of its affinity, at most its even share of each limit that the ranks have in common.

    Args:
        usable: cores that the affinity of the rank allows.
        local_ranks: ranks on this host.
        together: cores of the host and of the cgroup's quota; None for one that is not known.
    """
    return min([usable, *(cores / max(local_ranks, 1) for cores in together if cores is not None)])


def system_rate(pipeline_rate: float, compute_rate: float) -> float:
    """Rate of training: that of the slower of the input pipeline and the accelerator."""
    return min(pipeline_rate, compute_rate)


def fed_share(pipeline_rate: float, compute_rate: float) -> float:
    """Share of its rate that an accelerator reaches on what the pipeline delivers."""
    return system_rate(pipeline_rate, compute_rate) / compute_rate


def tokenise_s(batch: int, tokens: int, tokens_per_s: float) -> float:
    """Seconds to tokenise a batch of sequences in one worker."""
    return batch * tokens / tokens_per_s


def batch_bytes(batch: int, tokens: int, itemsize: int = INT64_BYTES) -> int:
    """Bytes of a batch of token ids."""
    return batch * tokens * itemsize


def copy_s(size_bytes: float, bytes_per_s: float) -> float:
    """Seconds of a copy at the bandwidth of its link."""
    return size_bytes / bytes_per_s


def shared_s(seconds: float, workers: int) -> float:
    """Seconds for each batch when workers share the work evenly."""
    return seconds / workers


def workers_needed(batch_s: float, step_s: float) -> int:
    """Fewest workers that prepare batches as fast as steps use them."""
    return math.ceil(batch_s / step_s)


def step_with_workers_s(compute_s: float, batch_s: float, workers: int) -> float:
    """Seconds of a step that workers feed: computing and loading overlap, the longer one counts."""
    return max(compute_s, shared_s(batch_s, workers))


def workers_speedup(compute_s: float, wait_s: float, batch_s: float, workers: int) -> float:
    """Speed-up of a step that waits for data by so many workers."""
    return (compute_s + wait_s) / step_with_workers_s(compute_s, batch_s, workers)
