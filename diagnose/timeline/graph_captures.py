"""Intervals in which the host captures GPU graphs: launches during them are recorded for the graph and do not run.

A capture lasts from its begin to its end on one thread, where captures of several streams may nest. Other threads of
the process, such as autograd's, launch into it too; a launch that does run, on another stream, has its activity in the
trace.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Ints, Mask
from diagnose.intervals import Intervals
from diagnose.trace import Trace
from diagnose.trace.vocabulary import RUNTIME

_BEGIN = re.compile(r"(cuda|hip|cu)StreamBegin(Rec|C)apture")
_END = re.compile(r"(cuda|hip|cu)StreamEndCapture")


@dataclass(frozen=True)
class GraphCaptures:
    """The instants at which each process captures a graph, by its id."""

    of_process: dict[int, Intervals]

    @property
    def spans(self) -> Intervals:
        """The instants of all processes."""
        return iv.union(iv.EMPTY, *self.of_process.values())

    def during(self, trace: Trace, rows: Ints) -> Mask:
        """Mask over the rows of the events that begin while their process captures a graph."""
        mask = np.zeros(len(rows), bool)
        for pid, spans in self.of_process.items():
            begin = trace.ts[rows]
            mask |= (trace.pid[rows] == pid) & iv.holds(spans, begin)
        return mask


def graph_captures(trace: Trace) -> GraphCaptures:
    """The captures of a trace; one that begins before it or ends behind it reaches to its edge."""
    calls = trace.rows_of(*RUNTIME)
    begins, ends = (np.flatnonzero(calls & trace.named(pattern.match)) for pattern in (_BEGIN, _END))
    of_process: dict[int, Intervals] = {}
    for pid, spans in _by_thread(trace, begins, ends):
        of_process[pid] = iv.union(of_process.get(pid, iv.EMPTY), spans)
    return GraphCaptures(of_process)


def _by_thread(trace: Trace, begins: Ints, ends: Ints) -> Iterator[tuple[int, Intervals]]:
    rows = np.concatenate((begins, ends))
    times = np.concatenate((trace.ts[begins], trace.ends(ends)))
    change = np.repeat((1, -1), (len(begins), len(ends)))
    for pid, tid in sorted({*zip(trace.pid[rows].tolist(), trace.tid[rows].tolist(), strict=True)}):
        own = np.flatnonzero((trace.pid[rows] == pid) & (trace.tid[rows] == tid))
        own = own[np.argsort(times[own], kind="stable")]
        edges = (int(trace.ts.min()), int((trace.ts + trace.dur).max()))
        yield pid, _open(times[own], change[own], edges)


def _open(times: Ints, change: Ints, edges: tuple[int, int]) -> Intervals:
    """The instants at which more captures have begun than ended."""
    depth = np.cumsum(change)
    begun_before = max(0, -int(depth.min()))
    depth = np.concatenate(([begun_before], depth + begun_before))
    times = np.concatenate(([edges[0]], times, [edges[1]]))
    inside = depth > 0
    return iv.union(iv.intervals(times[:-1][inside], times[1:][inside]))
