"""What the host of one rank ran in its counted steps, by name: for the comparison with other ranks."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from diagnose.arrays import Ints, numbered
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
class Ran:
    """One name: nanoseconds from begin to end, what runs inside included, and how often, in all counted steps."""

    ns: int
    count: int


HostWork = dict[tuple[HostKind, str], Ran]


def host_work_of(timeline: Timeline) -> HostWork:
    """The Python functions, ranges and operators with most time on the threads that run the step."""
    trace, windows, work = timeline.trace, timeline.steps.host, HostWork()
    rows = step_rows(timeline)
    step = np.searchsorted(windows[:, 0], trace.ts[rows], side="right") - 1
    rows = rows[(step >= 0) & (trace.ts[rows] < windows[np.maximum(step, 0), 1])]
    for kind, categories in KINDS.items():
        of_kind = rows[trace.rows_of(*categories)[rows]]
        names, which = numbered(trace.name[of_kind])
        count, ns = np.bincount(which, minlength=len(names)), np.zeros(len(names), np.int64)
        np.add.at(ns, which, trace.dur[of_kind])
        for at in np.argsort(-ns, kind="stable")[:MOST_NAMES].tolist():
            work[kind, trace.names[int(names[at])]] = Ran(int(ns[at]), int(count[at]))
    return work


def step_rows(timeline: Timeline) -> Ints:
    """Rows of what the threads that run the step do; collectives on threads of their own are left out."""
    trace = timeline.trace
    wanted = trace.rows_of(*ANNOTATIONS, *PYTHON, *RUNTIME)
    rows = np.flatnonzero(wanted & ~timeline.matching(f"{COMMUNICATION_RANGES}|{STEP_MARK}", *ANNOTATIONS))
    threads = timeline.launching_threads or _step_threads(timeline)
    keys = trace.pid[rows] * (1 << 32) + trace.tid[rows]
    return rows[np.isin(keys, [pid * (1 << 32) + tid for pid, tid in threads])]


def _step_threads(timeline: Timeline) -> set[tuple[int, int]]:
    """Threads that run operators in a job without a GPU."""
    trace = timeline.trace
    rows = np.flatnonzero(trace.rows_of("cpu_op"))
    return set(zip(trace.pid[rows].tolist(), trace.tid[rows].tolist(), strict=True))
