"""Ranks that were merged into one file, taken apart again.

Tools that merge traces number the processes anew, `rank * 100_000_000 + pid`, and drop the metadata of the files.
Process ids of Linux are below 2**22, so no other file looks like that.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from diagnose.arrays import Ints
from diagnose.trace.columns import PROCESSES, ReadingLoss, Trace

_PER_RANK = 100_000_000
_PIDS = 1 << 22


def pids_of_rank(rank: Ints, pid: Ints) -> Ints:
    """Process ids as merging tools number them."""
    return rank * _PER_RANK + pid


def ranks_of(trace: Trace) -> dict[int, Trace]:
    """The trace of each rank by its number; empty if the file holds one rank.

    The file's statements about memory belong to no known rank and are left out; the loss counts for the first rank, and
    the size is divided by events.
    """
    if trace.distributed is not None or not (trace.pid >= _PER_RANK).any():
        return {}
    owned = trace.pid >= 0
    rank, pid = np.divmod(np.where(owned, trace.pid, 0), _PER_RANK)
    numbers = np.unique(rank[owned])
    if len(numbers) < 2 or (pid >= _PIDS).any():
        return {}
    plain = replace(trace, pid=np.where(owned, pid, trace.pid), memory={})
    places = np.flatnonzero(owned)
    order = places[np.argsort(rank[places], kind="stable")]
    groups = np.split(order, np.flatnonzero(np.diff(rank[order])) + 1)
    parts: dict[int, Trace] = {}
    for number, rows, part in zip(numbers.tolist(), groups, plain.divided(groups), strict=True):
        size, loss = round(trace.size * len(rows) / len(places)), ReadingLoss() if parts else trace.loss
        parts[number] = replace(part, size=size, loss=loss, metadata=_of_rank(trace, number))
    return parts


def _of_rank(trace: Trace, number: int) -> Mapping[str, Any]:
    """The metadata of the file, of its processes that of the rank alone."""
    processes = trace.metadata.get(PROCESSES)
    own = {PROCESSES: processes[number : number + 1]} if isinstance(processes, list) else {}
    return {**trace.metadata, **own}
