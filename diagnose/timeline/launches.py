"""The calls that launch kernels, and those of them that ran."""

import re
from dataclasses import dataclass

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Ints, Mask, among
from diagnose.intervals import Intervals
from diagnose.timeline.graph_captures import GraphCaptures
from diagnose.trace import Trace
from diagnose.trace.vocabulary import GPU_CATEGORIES

LAUNCH_CALL = (
    r"(cuda|hip)(Ext)?(Module)?Launch(Cooperative)?Kernel|cuLaunch(Cooperative)?Kernel|(cuda|hip)GraphLaunch"
    r"|(ur|pi)EnqueueKernelLaunch"
)
_LAUNCHES = re.compile(LAUNCH_CALL)


@dataclass(frozen=True)
class Launches:
    """Kernel launches.

    Attributes:
        at: when those that run begin, ns.
        lost: which of them have no activity.
        cut: which of them have none because the recording or the file ended.
        early: which of them have none because the GPU's recording had not begun.
        recorded: rows of those that are recorded for a graph and do not run.
    """

    at: Ints
    lost: Mask
    cut: Mask
    early: Mask
    recorded: Ints

    def __len__(self) -> int:
        return len(self.at)

    def during(self, windows: Intervals) -> tuple[int, int]:
        """Number of the launches in the windows that have no activity, and of all."""
        inside = iv.which_holds(windows, self.at) >= 0
        return int((self.lost & inside).sum()), int(inside.sum())


def launches_of(trace: Trace, launch_rows: Ints, captures: GraphCaptures) -> Launches:
    """The kernel launches; one in a graph capture without an activity is recorded for the graph and not lost.

    Nsight Systems ends without waiting for the device: what was launched after the launch of the last recorded kernel
    had not run when the recording ended.
    """
    launches = np.array([_LAUNCHES.match(n) is not None for n in trace.names], bool)
    rows = launch_rows[launches[trace.name[launch_rows]]]
    if trace.of_nsight:
        rows = rows[trace.ts[rows] <= _last_that_ran(trace, rows)]
    absent = ~among(trace.correlation[rows], trace.correlation[trace.rows_of(*GPU_CATEGORIES)])
    recorded = absent & captures.during(trace, rows)
    at, lost = trace.ts[rows[~recorded]], absent[~recorded]
    ran, ever = at[~lost], np.iinfo(np.int64)
    cut = lost if trace.loss.truncated else lost & (at > ran.max(initial=0))
    early = lost & ~cut & (at < ran.min(initial=ever.max))
    return Launches(at, lost, cut, early, rows[recorded])


def _last_that_ran(trace: Trace, launches: Ints) -> int:
    """Time of the last launch that has an activity; the largest integer if none has one."""
    ran = among(trace.correlation[launches], trace.correlation[trace.rows_of(*GPU_CATEGORIES)])
    return int(trace.ts[launches[ran]].max()) if ran.any() else int(np.iinfo(np.int64).max)
