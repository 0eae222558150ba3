"""Which collective on one rank is the same as on another.

Instances match by process group and Seq where every rank recorded them, else by their order within a process group
and kind, which is only trusted when every rank has equally many of each.
"""

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diagnose.facts import Unknown
from diagnose.formulas.collectives import transfer_by_duration, waiting_by_duration
from diagnose.timeline import Timeline
from diagnose.vocabulary import ANNOTATIONS, COMMUNICATION_RANGES

Key = tuple[str, ...]
_KIND = re.compile(
    r"all_?reduce|all_?gather|reduce_?scatter|broadcast|all_?to_?all|send_?recv|reduce|barrier|generic|gather|scatter"
)


@dataclass(frozen=True)
class Calls:
    """The collectives of one rank inside its counted steps: key of each, start and end in its own nanoseconds.

    `row` is the event of the trace.
    """

    keys: tuple[Key, ...]
    row: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]


@dataclass(frozen=True)
class Match:
    """Collectives that every rank took part in: arrays of shape (instances, ranks), in order of the first rank.

    `row` is the event of each in the trace of the first rank, shape (instances,).
    """

    row: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]

    @property
    def duration(self) -> NDArray[np.int64]:
        """Nanoseconds that each rank spent in each collective."""
        return self.end - self.start

    @property
    def transfer(self) -> NDArray[np.int64]:
        """Shortest duration over the ranks: the last to arrive does not wait. Needs no common clock."""
        return transfer_by_duration(self.duration)

    @property
    def waiting(self) -> NDArray[np.int64]:
        """Nanoseconds that each rank waited in each collective."""
        return waiting_by_duration(self.duration)


def match(timelines: list[Timeline]) -> Match | Unknown:
    """Joins the collectives of several ranks, or says why they cannot be joined."""
    if len(timelines) < 2:
        return Unknown("one rank cannot tell transfer from waiting", "pass the traces of all ranks of the job")
    calls = [calls_of(t) for t in timelines]
    if not any(len(c.keys) for c in calls):
        return Unknown("no collective was recorded in the counted steps", "nothing: the ranks do not communicate")
    shared = _trusted([set(c.keys) for c in calls])
    if not shared:
        return Unknown(
            "the ranks recorded different numbers of collectives, so their order does not match them",
            "capture the same steps on every rank, with a torch that records Seq (2.12 or later)",
        )
    index = [{key: i for i, key in enumerate(c.keys)} for c in calls]
    order = [key for key in calls[0].keys if key in shared]
    rows = np.array([[ix[key] for ix in index] for key in order])
    return Match(
        row=calls[0].row[rows[:, 0]],
        start=np.stack([c.start[rows[:, r]] for r, c in enumerate(calls)], axis=1),
        end=np.stack([c.end[rows[:, r]] for r, c in enumerate(calls)], axis=1),
    )


def _trusted(ranks: list[set[Key]]) -> set[Key]:
    """Keys that every rank has; by order only those of steps in which all ranks have the same keys."""
    shared, every = set.intersection(*ranks), set.union(*ranks)
    broken = {key[1] for key in every - shared if key[0] == "order"}
    return {key for key in shared if key[0] == "seq" or key[1] not in broken}


def calls_of(timeline: Timeline) -> Calls:
    """The rank's collectives in its counted steps: GPU kernels, else the host's calls."""
    return _kernel_calls(timeline) if timeline.has_gpu else _host_calls(timeline)


def _kernel_calls(timeline: Timeline) -> Calls:
    gpu, trace = timeline.gpu, timeline.trace
    step = _step_of(timeline, gpu.end)
    inside = np.flatnonzero(gpu.is_communication & (step >= 0))
    fields = {int(row): i for i, row in enumerate(trace.collectives.row)}
    labels = []
    for i in inside:
        row = int(gpu.row[i])
        table = fields.get(row)
        if table is None:
            labels.append(("", kind_of(trace.names[trace.name[row]]), -1))
        else:
            fielded = trace.collectives
            labels.append((fielded.group[table], kind_of(fielded.name[table]), int(fielded.seq[table])))
    return Calls(_keys(labels, step[inside]), gpu.row[inside], gpu.start[inside], gpu.end[inside])


def _host_calls(timeline: Timeline) -> Calls:
    """Gloo's own ranges: they last from a rank's arrival to the end of the collective, on worker threads."""
    trace = timeline.trace
    rows = np.flatnonzero(timeline.matching(COMMUNICATION_RANGES, *ANNOTATIONS))
    rows = rows[np.argsort(trace.ts[rows], kind="stable")]
    step = _step_of(timeline, trace.ts[rows] + 1)
    rows, step = rows[step >= 0], step[step >= 0]
    labels = [("", f"{trace.names[trace.name[r]]} {_dims(timeline, r)}", -1) for r in rows.tolist()]
    return Calls(_keys(labels, step), rows, trace.ts[rows], (trace.ts + trace.dur)[rows])


def _dims(timeline: Timeline, row: int) -> str:
    shape = timeline.trace.shape[row]
    return timeline.trace.shapes[shape][0].decode("utf-8", "replace") if shape >= 0 else ""


def _step_of(timeline: Timeline, times: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number by which ranks know the counted step that each time lies in, -1 outside."""
    windows = timeline.windows
    at = np.searchsorted(windows[:, 0], times, side="left") - 1
    inside = (at >= 0) & (times <= windows[np.maximum(at, 0), 1])
    return np.where(inside, np.array(timeline.steps.numbers, np.int64)[at], -1)


def _keys(labels: list[tuple[str, str, int]], steps: NDArray[np.int64]) -> tuple[Key, ...]:
    """A key for each collective: its Seq when all have one, else its step and its order there."""
    numbered = bool(labels) and all(seq >= 0 for _, _, seq in labels)
    seen: Counter[tuple[str, ...]] = Counter()
    keys: list[Key] = []
    for (group, kind, seq), step in zip(labels, steps.tolist(), strict=True):
        place = ("seq", str(seq), group, kind) if numbered else ("order", str(step), group, kind)
        keys.append((*place, str(seen[place])))
        seen[place] += 1
    return tuple(keys)


def kind_of(name: str) -> str:
    """`ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)` and `_allreduce_coalesced` are both "allreduce"."""
    found = _KIND.search(name.lower())
    return found[0].replace("_", "") if found else "collective"
