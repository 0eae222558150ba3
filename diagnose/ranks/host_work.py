"""The host's work in the counted steps of one rank, by name, for the comparison with other ranks."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Ints, Mask, summed
from diagnose.timeline import Timeline
from diagnose.trace.vocabulary import ANNOTATIONS, COMMUNICATION_RANGES, OPS, PYTHON, RUNTIME, STEP_MARK

HostKind = Literal["function", "range", "operator"]
KINDS: dict[HostKind, tuple[str, ...]] = {
    "function": PYTHON,
    "range": tuple(category for category in ANNOTATIONS if category not in OPS),
    "operator": OPS,
}
MOST_NAMES = 100  # of each kind: those with most time, so that the digest stays small


@dataclass(frozen=True, slots=True)
class HostTime:
    """One name: nanoseconds from begin to end, what runs inside included, and how often, in all counted steps."""

    ns: int
    count: int


HostWork = dict[tuple[HostKind, str], HostTime]


def host_work_of(timeline: Timeline) -> HostWork:
    """The Python functions, ranges and operators with most time on the threads that run the step."""
    trace, work, on_threads = timeline.trace, HostWork(), _by_the_step(timeline)
    for kind, categories in KINDS.items():
        ns, count = _by_name(timeline, on_threads & trace.rows_of(*categories))
        names = np.flatnonzero(count)
        for name in names[np.argsort(-ns[names], kind="stable")[:MOST_NAMES]].tolist():
            work[kind, trace.names[name]] = HostTime(int(ns[name]), int(count[name]))
    return work


def _by_name(timeline: Timeline, marked: Mask) -> tuple[Ints, Ints]:
    """Time and number by name id of the marked events that begin in a counted step; computed block by block."""
    trace, windows, names = timeline.trace, timeline.steps.host, len(timeline.trace.names)
    ns, count = np.zeros(names, np.int64), np.zeros(names, np.int64)
    for block in iv.blocks(len(trace), names):
        rows = block.start + np.flatnonzero(marked[block])
        rows = rows[iv.which_holds(windows, trace.ts[rows]) >= 0]
        if len(rows):
            count += np.bincount(trace.name[rows], minlength=names)
            ns += summed(trace.name[rows], trace.dur[rows], names)
    return ns, count


def step_rows(timeline: Timeline) -> Ints:
    """Rows of what the threads that run the step do; collectives on threads of their own are left out."""
    return np.flatnonzero(_by_the_step(timeline) & timeline.trace.rows_of(*ANNOTATIONS, *PYTHON, *RUNTIME))


def _by_the_step(timeline: Timeline) -> Mask:
    """Mask of the events of the threads that run the step, without collectives and the marks of steps."""
    apart = timeline.matching(f"{COMMUNICATION_RANGES}|{STEP_MARK}", *ANNOTATIONS)
    threads = timeline.launching_threads or _step_threads(timeline)
    return timeline.on_threads(threads) & ~apart


def _step_threads(timeline: Timeline) -> frozenset[tuple[int, int]]:
    """Threads that run operators in a job without a GPU."""
    trace = timeline.trace
    rows = np.flatnonzero(trace.rows_of("cpu_op"))
    return frozenset(zip(trace.pid[rows].tolist(), trace.tid[rows].tolist(), strict=True))
