"""The first operation of a late rank's step that ran unlike that of the other ranks.

Both are walked in order as segments that cover the step: the gap before an operation, and what it takes itself.
Segments are aligned by the sequence of their names. A segment diverges when it takes longer than in any step of the
typical ranks, by more than a tenth of the rank's lateness.
"""

from collections.abc import Collection, Sequence
from difflib import SequenceMatcher

import msgspec
import numpy as np

from diagnose.arrays import Ints
from diagnose.facts import duration
from diagnose.ranks.host_work import step_rows
from diagnose.ranks.stragglers.causes import RankLateness
from diagnose.timeline import Timeline

Names = tuple[tuple[str, bool], ...]
TELLING = 0.1  # of the lateness
LONGEST = 4_000  # operations of a step that are aligned
TYPICAL_RANKS = 3
END = "the end of the step"
ON_DEVICE = ("slower_kernels", "more_work")


class Walk(msgspec.Struct, frozen=True):
    """One step in order: for each segment its name, whether it is the gap before, its duration and time in the step."""

    names: Names
    ns: Ints
    at: Ints


class Divergence(msgspec.Struct, frozen=True):
    """A segment that diverges: `usual_ns` is the longest of the typical ranks, None if they have no such segment.

    `after` is the operation before a gap, "" at the beginning of the step.
    """

    name: str
    is_gap: bool
    ns: int
    usual_ns: int | None
    at: int
    after: str = ""


def first_diverging(late_rank: RankLateness, timelines: Sequence[Timeline], late_ranks: Collection[int]) -> str:
    """The first diverging operation of a late rank in words, "" if none is found or the rank was not measured."""
    timeline = next((t for t in timelines if t.rank == late_rank.rank), None)
    typical = [t for t in timelines if t.rank not in late_ranks and t.has_gpu == (timeline is None or timeline.has_gpu)]
    if timeline is None or not typical or not late_rank.steps:
        return ""
    on_device = timeline.has_gpu and late_rank.cause in ON_DEVICE
    number = late_rank.steps[len(late_rank.steps) // 2]
    usual = [walk for t in typical[:TYPICAL_RANKS] for walk in _walks(t, on_device, t.steps.numbers)]
    walks = _walks(timeline, on_device, (number,))
    divergence = _first(walks[0], usual, TELLING * late_rank.own_ns) if walks and usual else None
    return "" if divergence is None else _described(divergence, late_rank.rank)


def _described(divergence: Divergence, rank: int) -> str:
    after = f"{duration(divergence.at)} into the step"
    if divergence.usual_ns is None:
        return f"rank {rank}: {divergence.name} {duration(divergence.ns)}, which the other ranks do not run, {after}"
    name, lasted = divergence.name, duration(divergence.ns)
    between = f"between {divergence.after} and" if divergence.after else "before"
    what = f"{lasted} {between} {name}" if divergence.is_gap else f"{name} {lasted}"
    return f"rank {rank}: {what} instead of {duration(divergence.usual_ns)}, {after}"


def _first(walk: Walk, usual: Sequence[Walk], enough: float) -> Divergence | None:
    """The first segment that exceeds the longest of the typical walks, each aligned with it.

    Most walks are alike but for their times and are aligned once.
    """
    known, longest = np.full(len(walk.ns), -1, np.int64), dict[Names, Ints]()
    for typical in usual:
        longest[typical.names] = np.maximum(longest.get(typical.names, typical.ns), typical.ns)
    for names, ns in longest.items():
        at, theirs = _aligned(walk.names, names)
        known[at] = np.maximum(known[at], ns[theirs])
    excess = walk.ns - np.maximum(known, 0)
    hits = np.flatnonzero(excess > max(enough, 1.0))
    if not len(hits):
        return None
    hit = int(hits[0])
    name, is_gap = walk.names[hit]
    usually, after = int(known[hit]), walk.names[hit - 1][0] if hit else ""
    return Divergence(name, is_gap, int(walk.ns[hit]), usually if usually >= 0 else None, int(walk.at[hit]), after)


def _aligned(names: Names, others: Names) -> tuple[Ints, Ints]:
    """Positions of the segments that are the same in both, by the sequence of names; beginning and end go first."""
    shorter = min(len(names), len(others))
    same = next((i for i in range(shorter) if names[i] != others[i]), shorter)
    ends = next((i for i in range(shorter - same) if names[-1 - i] != others[-1 - i]), shorter - same)
    middle = names[same : len(names) - ends], others[same : len(others) - ends]
    blocks = SequenceMatcher(None, *middle, autojunk=False).get_matching_blocks() if all(middle) else []
    pairs = [(i, i) for i in range(same)]
    pairs += [(same + a + i, same + b + i) for a, b, size in blocks for i in range(size)]
    pairs += [(len(names) - i, len(others) - i) for i in range(ends, 0, -1)]
    columns = np.array(pairs, np.int64).reshape(-1, 2)
    return columns[:, 0], columns[:, 1]


def _walks(timeline: Timeline, on_device: bool, numbers: Collection[int]) -> list[Walk]:
    """The steps of these numbers, on the device or the host."""
    windows = timeline.steps.device if on_device else timeline.steps.host
    chosen = [w for n, w in zip(timeline.steps.numbers, windows.tolist(), strict=True) if n in numbers]
    rows = _kernels(timeline) if on_device else step_rows(timeline)
    return [_walk(timeline, rows, begin, end) for begin, end in chosen]


def _kernels(timeline: Timeline) -> Ints:
    gpu = timeline.gpu
    return gpu.row[~gpu.is_communication & ~gpu.is_copy]


def _walk(timeline: Timeline, rows: Ints, begin: int, end: int) -> Walk:
    """The segments of one step in order: the gap before each operation, and its time after the last one inside it."""
    trace = timeline.trace
    rows = rows[(trace.ts[rows] >= begin) & (trace.ts[rows] < end)]
    rows = rows[np.lexsort((-trace.dur[rows], trace.ts[rows]))][:LONGEST]
    starts, ends = trace.ts[rows].tolist(), trace.ends(rows).tolist()
    steps = _Segments(begin)
    for row, start, stop in zip(rows.tolist(), starts, ends, strict=True):
        steps.close(start)
        steps.until(start, trace.names[trace.name[row]], is_gap=True)
        steps.running.append((trace.names[trace.name[row]], stop))
    steps.close(end)
    steps.until(end, END, is_gap=True)
    return Walk(tuple(steps.names), np.array(steps.ns, np.int64), np.array(steps.at, np.int64))


class _Segments:
    """Segments so far, and the operations that are still running, innermost last."""

    def __init__(self, begin: int) -> None:
        self.begin = self.reached = begin
        self.running: list[tuple[str, int]] = []
        self.names: list[tuple[str, bool]] = []
        self.ns: list[int] = []
        self.at: list[int] = []

    def until(self, time: int, name: str, *, is_gap: bool) -> None:
        """The time up to `time` is that of a name."""
        self.names.append((name, is_gap))
        self.ns.append(max(time - self.reached, 0))
        self.at.append(self.reached - self.begin)
        self.reached = max(self.reached, time)

    def close(self, time: int) -> None:
        """Ends what ends by `time`."""
        while self.running and self.running[-1][1] <= time:
            name, stop = self.running.pop()
            self.until(stop, name, is_gap=False)
