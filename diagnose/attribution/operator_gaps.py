"""Long gaps inside one operator: the host calls nothing there, and nothing says what it does.

The window's usual gap shows which is long. Where launches follow each other after microseconds, an operator that calls
nothing for a hundred milliseconds is not slow to dispatch: it compiles, loads, searches, allocates, or computes on the
host itself.
"""

from dataclasses import dataclass

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Ints, Mask
from diagnose.intervals import Intervals
from diagnose.timeline import Timeline
from diagnose.trace.vocabulary import ANNOTATIONS, NO_OPERATOR, OPS, PYTHON, RUNTIME

TIMES_USUAL = 20
LEAST_NS = 500_000
NONE = -1
_BLOCK = 1 << 12


@dataclass(frozen=True)
class OperatorGaps:
    """The gaps in order, disjoint: their instants, the row of the innermost operator around each, and the usual gap.

    `usual_ns` is the median time from one launch to the next.
    """

    instants: Intervals
    operator: Ints
    usual_ns: int


def operator_gaps(timeline: Timeline) -> OperatorGaps:
    """The long gaps inside operators on the threads that launch."""
    return timeline.once(_operator_gaps)


def _operator_gaps(timeline: Timeline) -> OperatorGaps:
    trace, usual_ns = timeline.trace, _usual_ns(timeline)
    working = timeline.on_threads(timeline.launching_threads)
    events = np.flatnonzero(working & trace.rows_of(*ANNOTATIONS, *RUNTIME, *PYTHON))
    edges = np.unique(np.concatenate((trace.ts[events], trace.ends(events))))
    long = np.flatnonzero(np.diff(edges) > max(TIMES_USUAL * usual_ns, LEAST_NS))
    gaps = np.stack((edges[long], edges[long + 1]), axis=1)
    calls = iv.of_events(trace.ts, trace.dur, working & trace.rows_of(*RUNTIME))
    gaps = gaps[iv.coverage(calls, gaps[:, 0], gaps[:, 1]) == 0]
    operator = _around(timeline, working, gaps)
    return OperatorGaps(gaps[operator != NONE], operator[operator != NONE], usual_ns)


def _usual_ns(timeline: Timeline) -> int:
    launches = np.unique(timeline.gpu.launch[timeline.gpu.launch >= 0])
    begins = np.sort(timeline.trace.ts[launches])
    return int(np.median(np.diff(begins))) if len(begins) > 1 else 0


def _around(timeline: Timeline, working: Mask, gaps: Intervals) -> Ints:
    """The row of the event around each gap that begins last, if it is an operator, else NONE."""
    trace, found = timeline.trace, np.full(len(gaps), NONE, np.int64)
    if not len(gaps):
        return found
    rows = np.flatnonzero(working & trace.rows_of(*ANNOTATIONS, *PYTHON))
    rows = rows[np.lexsort((-trace.dur[rows], trace.ts[rows]))]
    end = trace.ends(rows)
    begun = np.searchsorted(trace.ts[rows], gaps[:, 0], side="right")
    for at, (until, gap_end) in enumerate(zip(begun.tolist(), gaps[:, 1].tolist(), strict=True)):
        found[at] = _last_that_reaches(end, until, gap_end)
    found = np.append(rows, NONE)[found]
    operators = np.append(trace.rows_of(*OPS) & ~timeline.matching(NO_OPERATOR, *OPS), False)
    return np.where(operators[found], found, NONE)


def _last_that_reaches(end: Ints, until: int, time: int) -> int:
    """The last of the first `until` events that ends no earlier than the time, NONE if none does; block by block."""
    while until > 0:
        first = max(until - _BLOCK, 0)
        reaching = np.flatnonzero(end[first:until] >= time)
        if len(reaching):
            return first + int(reaching[-1])
        until = first
    return NONE
