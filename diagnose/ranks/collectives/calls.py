"""The collectives of one rank in its counted steps, as columns that are passed to where the ranks are joined."""

from collections.abc import Hashable, Sequence
from typing import TypeVar

import msgspec
import numpy as np

from diagnose.arrays import Ints
from diagnose.ranks.collectives.fields import Fields, fields_of
from diagnose.ranks.collectives.kinds import is_unknown, itemsize
from diagnose.ranks.collectives.process_groups import ProcessGroup, naming_of
from diagnose.timeline import Timeline
from diagnose.timeline.kernel_names import collective_kind
from diagnose.timeline.steps import BY_DEVICE, WHOLE
from diagnose.trace import Trace
from diagnose.trace.vocabulary import ANNOTATIONS, COMMUNICATION_RANGES

NOT_RECORDED = -1
_Label = TypeVar("_Label", bound=Hashable)


def _no_messages() -> Ints:
    return np.zeros((0, 3), np.int64)


def _nothing() -> Ints:
    return np.zeros(0, np.int64)


class RankCalls(msgspec.Struct, frozen=True):
    """Collectives of one rank in order of start; columns of equal length.

    Attributes:
        row: event of the rank's trace.
        group: index of `groups`.
        kind: index of `kinds`: "allreduce", "allgather" and so on, with the dimensions of gloo's input.
        step: number by which ranks know the step that launched it.
        seq: number that the process group gave it; NOT_RECORDED before torch 2.12.
        bytes: of the whole message, the full buffer of a sharded collective; NOT_RECORDED without its fields.
        size: ranks of its group; NOT_RECORDED without its fields.
        start: nanoseconds of the rank's own clock, as `end`.
        messages: sends and receives, shape (messages, 3): which of the calls, its sender, its receiver; the ends are
            ranks of the job.
        sent: elements of the rank's own input, as `received` of its output; NOT_RECORDED without its fields.
    """

    row: Ints
    group: Ints
    kind: Ints
    step: Ints
    seq: Ints
    bytes: Ints
    size: Ints
    start: Ints
    end: Ints
    groups: tuple[ProcessGroup, ...]
    kinds: tuple[str, ...]
    messages: Ints = msgspec.field(default_factory=_no_messages)
    sent: Ints = msgspec.field(default_factory=_nothing)
    received: Ints = msgspec.field(default_factory=_nothing)

    def __len__(self) -> int:
        return len(self.row)


def calls_of(timeline: Timeline) -> RankCalls:
    """The rank's collectives in its counted steps: GPU kernels, else the host's calls."""
    rows, start, end, step, known = _kernels(timeline) if timeline.has_gpu else _host_ranges(timeline)
    kinds = _kinds(timeline, rows, known)
    trace, at = timeline.trace, known.field
    groups = _groups(trace, rows, at, kinds)
    kept = np.flatnonzero(step >= 0)
    group_names, group = _numbered([groups[i] for i in kept.tolist()])
    kind_names, kind = _numbered([kinds[i] for i in kept.tolist()])
    return RankCalls(
        row=rows[kept],
        group=group,
        kind=kind,
        step=step[kept],
        seq=_taken(trace.collectives.seq, at[kept]),
        bytes=_bytes(trace, at[kept]),
        size=_taken(trace.collectives.group_size, at[kept]),
        start=start[kept],
        end=end[kept],
        groups=group_names,
        kinds=kind_names,
        messages=_kept(known.messages, kept, len(rows)),
        sent=_taken(trace.collectives.elements_in, at[kept]),
        received=_taken(trace.collectives.elements_out, at[kept]),
    )


def _kernels(timeline: Timeline) -> tuple[Ints, Ints, Ints, Ints, Fields]:
    gpu = timeline.gpu
    which = np.flatnonzero(gpu.is_communication)
    return gpu.row[which], gpu.start[which], gpu.end[which], _launched_in(timeline, which), fields_of(timeline, which)


def _host_ranges(timeline: Timeline) -> tuple[Ints, Ints, Ints, Ints, Fields]:
    """Gloo's own ranges: they last from a rank's arrival to the end of the collective, on worker threads."""
    trace = timeline.trace
    rows = timeline.rows_matching(COMMUNICATION_RANGES, *ANNOTATIONS)
    rows = rows[np.argsort(trace.ts[rows], kind="stable")]
    absent = np.full(len(rows), NOT_RECORDED, np.int64)
    start = trace.ts[rows]
    return rows, start, start + trace.dur[rows], _step_at(timeline, start + 1), Fields(absent, absent, _no_messages())


def _launched_in(timeline: Timeline, activity: Ints) -> Ints:
    """The number of the counted step that launched each activity, NOT_RECORDED outside.

    The launch decides rather than the device, which may end a collective of the next step before the last of this one.
    """
    gpu, steps = timeline.gpu, timeline.steps
    on_device = _step_at(timeline, gpu.end[activity])
    if steps.source in (*WHOLE, *BY_DEVICE) or not len(steps.host):
        return on_device
    launched = gpu.launch_start[activity]
    number = np.append(np.array(steps.numbers, np.int64), NOT_RECORDED)
    by_launch = number[np.searchsorted(steps.host[:, 1], launched, side="right")]
    return np.where(launched >= steps.host[0, 0], by_launch, on_device)


def _step_at(timeline: Timeline, times: Ints) -> Ints:
    """The number by which ranks know the counted step that each time lies in, NOT_RECORDED outside."""
    windows = timeline.windows
    at = np.searchsorted(windows[:, 0], times, side="left") - 1
    inside = (at >= 0) & (times <= windows[np.maximum(at, 0), 1])
    return np.where(inside, np.array(timeline.steps.numbers, np.int64)[at], NOT_RECORDED)


def _kinds(timeline: Timeline, rows: Ints, known: Fields) -> list[str]:
    """The kind of each collective; those with the same names and shape are asked about once."""
    trace, kinds = timeline.trace, dict[tuple[int, int, str | None, int], str]()
    found = []
    for row, at, around in zip(rows.tolist(), known.field.tolist(), known.annotation.tolist(), strict=True):
        said = trace.collectives.name[at] if at >= 0 else None
        key = int(trace.name[row]), int(trace.shape[row]), said, int(trace.name[around]) if around >= 0 else -1
        if key not in kinds:
            kinds[key] = _kind(timeline, row, at, around)
        found.append(kinds[key])
    return found


def _kind(timeline: Timeline, row: int, at: int, around: int) -> str:
    """The kind by the fields, else by the annotation (NCCL runs several collectives in one kernel), else by its own
    name.
    """
    trace = timeline.trace
    if not timeline.has_gpu:
        shape = trace.shape[row]
        dims = trace.shapes[shape][0].decode("utf-8", "replace") if shape >= 0 else ""
        return f"{collective_kind(trace.names[trace.name[row]])} {dims}".rstrip()
    names = [trace.collectives.name[at]] if at >= 0 else []
    names += [trace.names[trace.name[around]]] if around >= 0 else []
    kinds = [collective_kind(name) for name in (*names, trace.names[trace.name[row]])]
    return next((kind for kind in kinds if not is_unknown(kind)), kinds[-1])


def _groups(trace: Trace, rows: Ints, at: Ints, kinds: Sequence[str]) -> list[ProcessGroup]:
    table, naming = trace.collectives, naming_of(trace)
    named: dict[tuple[str, str, int], ProcessGroup] = {}
    groups = []
    for row, i, kind in zip(rows.tolist(), at.tolist(), kinds, strict=True):
        if i < 0 or not table.group[i]:
            groups.append(naming.unnamed(kind, trace.names[trace.name[row]]))
            continue
        about = (table.group[i], table.group_ranks[i], int(table.group_size[i]))
        if about not in named:
            named[about] = naming.named(*about)
        groups.append(named[about])
    return groups


def _numbered(labels: Sequence[_Label]) -> tuple[tuple[_Label, ...], Ints]:
    names = tuple(dict.fromkeys(labels))
    number = {name: i for i, name in enumerate(names)}
    return names, np.array([number[label] for label in labels], np.int64)


def _bytes(trace: Trace, at: Ints) -> Ints:
    table = trace.collectives
    width = np.array([itemsize(dtype) for dtype in table.dtype], np.int64)
    elements = np.maximum(table.elements_in, table.elements_out)
    return _taken(np.where((elements > 0) & (width > 0), elements * width, NOT_RECORDED), at)


def _taken(column: Ints, at: Ints) -> Ints:
    padded = np.append(column, NOT_RECORDED)  # -1 takes the last
    return padded[at].astype(np.int64)


def _kept(messages: Ints, kept: Ints, total: int) -> Ints:
    """The messages of the calls that are kept, by their new places."""
    place = np.full(total, NOT_RECORDED, np.int64)
    place[kept] = np.arange(len(kept))
    moved = np.stack((place[messages[:, 0]], messages[:, 1], messages[:, 2]), axis=1)
    return moved[moved[:, 0] >= 0]
