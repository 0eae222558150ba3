"""The other GPUs that the process uses, apart from the one whose time is accounted."""

from dataclasses import dataclass, field

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Ints, first_of, numbered
from diagnose.timeline.activities import Activities
from diagnose.trace import Trace
from diagnose.trace.vocabulary import GPU_CATEGORIES, RUNTIME

LEAST_SHARE = 0.05  # of the busiest GPU's time: a GPU with less is hardly used, as by a mere context


def _none() -> Ints:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class OtherGpus:
    """The number of other GPUs that work for the process, when any does, and the calls that launch on them."""

    count: int = 0
    busy: iv.Intervals = field(default_factory=lambda: iv.EMPTY)
    launches: Ints = field(default_factory=_none)


def other_gpus_of(trace: Trace, gpu: Activities) -> OtherGpus:
    """Other GPUs than that of the activities."""
    rows = np.flatnonzero(trace.rows_of(*GPU_CATEGORIES))
    if len(rows) == len(gpu):
        return OtherGpus()
    devices, index = numbered(trace.pid[rows])
    ns = np.bincount(index, weights=trace.dur[rows])
    works = (ns >= LEAST_SHARE * ns.max()) & (devices != trace.pid[gpu.row[0]])
    rows = rows[works[index]]
    calls = np.flatnonzero(trace.rows_of(*RUNTIME) & (trace.correlation > 0))
    at = first_of(trace.correlation[calls], trace.correlation[rows])
    return OtherGpus(
        count=int(works.sum()),
        busy=iv.intervals(trace.ts[rows], trace.ends(rows)),
        launches=np.unique(calls[at[at >= 0]]),
    )
