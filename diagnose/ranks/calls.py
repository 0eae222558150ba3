"""The collectives of one rank in its counted steps, as columns that travel to where the ranks are joined."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diagnose.ranks.kinds import itemsize, kind_of
from diagnose.timeline import Timeline
from diagnose.trace import Trace
from diagnose.vocabulary import ANNOTATIONS, COMMUNICATION_RANGES

Column = NDArray[np.int64]
NOT_RECORDED = -1


@dataclass(frozen=True)
class Group:
    """A process group as a trace names it; `ranks` is empty where the trace does not list them."""

    name: str
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Calls:
    """Collectives of one rank in order of start; columns of equal length.

    Attributes:
        row: event of the rank's trace.
        group: index of `groups`.
        kind: index of `kinds`: "allreduce", "allgather" and so on, with the dimensions of gloo's input.
        step: number by which ranks know the step.
        seq: number that the process group gave it; NOT_RECORDED before torch 2.12.
        bytes: of the whole message, the full buffer of a sharded collective; NOT_RECORDED without its fields.
        size: ranks of its group; NOT_RECORDED without its fields.
        start: nanoseconds of the rank's own clock, as `end`.
    """

    row: Column
    group: Column
    kind: Column
    step: Column
    seq: Column
    bytes: Column
    size: Column
    start: Column
    end: Column
    groups: tuple[Group, ...]
    kinds: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.row)


def calls_of(timeline: Timeline) -> Calls:
    """The rank's collectives in its counted steps: GPU kernels, else the host's calls."""
    rows, start, end = _kernels(timeline) if timeline.has_gpu else _host_ranges(timeline)
    step = _step_of(timeline, end if timeline.has_gpu else start + 1)
    inside = step >= 0
    rows, start, end, step = rows[inside], start[inside], end[inside], step[inside]
    fields = {int(row): i for i, row in enumerate(timeline.trace.collectives.row)}
    at = np.array([fields.get(row, NOT_RECORDED) for row in rows.tolist()], np.int64)
    groups, group = _numbered([_group_name(timeline.trace, i) for i in at.tolist()])
    kinds, kind = _numbered([_kind(timeline, row, i) for row, i in zip(rows.tolist(), at.tolist(), strict=True)])
    table = timeline.trace.collectives
    members = group_members(timeline.trace.metadata)
    return Calls(
        row=rows,
        group=group,
        kind=kind,
        step=step,
        seq=_taken(table.seq, at),
        bytes=_bytes(timeline.trace, at),
        size=_taken(table.group_size, at),
        start=start,
        end=end,
        groups=tuple(Group(name, members.get(name, ())) for name in groups),
        kinds=kinds,
    )


def group_members(metadata: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The ranks of each process group that `distributedInfo` lists (torch 2.3 or later)."""
    info = metadata.get("distributedInfo")
    listed = info.get("pg_config") if isinstance(info, dict) else None
    found: dict[str, tuple[int, ...]] = {}
    for config in listed if isinstance(listed, list) else ():
        ranks = config.get("ranks") if isinstance(config, dict) else None
        if isinstance(ranks, list) and all(isinstance(r, int) for r in ranks):
            found[str(config.get("pg_name", ""))] = tuple(sorted(ranks))
    return found


def _kernels(timeline: Timeline) -> tuple[Column, Column, Column]:
    gpu = timeline.gpu
    which = gpu.is_communication
    return gpu.row[which], gpu.start[which], gpu.end[which]


def _host_ranges(timeline: Timeline) -> tuple[Column, Column, Column]:
    """Gloo's own ranges: they last from a rank's arrival to the end of the collective, on worker threads."""
    trace = timeline.trace
    rows = np.flatnonzero(timeline.matching(COMMUNICATION_RANGES, *ANNOTATIONS))
    rows = rows[np.argsort(trace.ts[rows], kind="stable")]
    return rows, trace.ts[rows], (trace.ts + trace.dur)[rows]


def _step_of(timeline: Timeline, times: Column) -> Column:
    """The number by which ranks know the counted step that each time lies in, NOT_RECORDED outside."""
    windows = timeline.windows
    at = np.searchsorted(windows[:, 0], times, side="left") - 1
    inside = (at >= 0) & (times <= windows[np.maximum(at, 0), 1])
    return np.where(inside, np.array(timeline.steps.numbers, np.int64)[at], NOT_RECORDED)


def _group_name(trace: Trace, field: int) -> str:
    return trace.collectives.group[field] if field >= 0 else ""


def _kind(timeline: Timeline, row: int, field: int) -> str:
    trace = timeline.trace
    name = trace.collectives.name[field] if field >= 0 else trace.names[trace.name[row]]
    if timeline.has_gpu:
        return kind_of(name)
    shape = trace.shape[row]
    dims = trace.shapes[shape][0].decode("utf-8", "replace") if shape >= 0 else ""
    return f"{kind_of(name)} {dims}".rstrip()


def _numbered(labels: list[str]) -> tuple[tuple[str, ...], Column]:
    names = tuple(dict.fromkeys(labels))
    number = {name: i for i, name in enumerate(names)}
    return names, np.array([number[label] for label in labels], np.int64)


def _bytes(trace: Trace, at: Column) -> Column:
    table = trace.collectives
    width = np.array([itemsize(dtype) for dtype in table.dtype], np.int64)
    elements = np.maximum(table.elements_in, table.elements_out)
    return _taken(np.where((elements > 0) & (width > 0), elements * width, NOT_RECORDED), at)


def _taken(column: Column, at: Column) -> Column:
    padded = np.append(column, NOT_RECORDED)  # -1 takes the last
    return padded[at].astype(np.int64)
