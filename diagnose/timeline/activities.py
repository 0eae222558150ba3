"""The activities of one rank's GPU, each with its launch and its kind."""

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from diagnose.arrays import Ids, Ints, Mask, first_of, numbered, ordered, rows_in, shortened
from diagnose.timeline.external_ids import operators_by_id
from diagnose.timeline.graph_captures import GraphCaptures
from diagnose.timeline.kernel_names import COMMUNICATION, Kind, bound_by, classify
from diagnose.timeline.launches import Launches, launches_of
from diagnose.trace import Trace
from diagnose.trace.vocabulary import GPU_CATEGORIES, RUNTIME

NOT_LAUNCHED = -1

_COPY_KIND = re.compile(
    r"\b(HtoD|DtoH|DtoD|PtoP|HtoH|DtoA)\b|(HostToDevice|DeviceToHost|DeviceToDevice)|\b([HM]2D|D2[HM]|D2D)\b"
)
_COPY_ALIASES = {  # of ROCm, and of XPU, which calls memory of the host M where it is not registered
    **{"HostToDevice": "HtoD", "DeviceToHost": "DtoH", "DeviceToDevice": "DtoD"},
    **{"H2D": "HtoD", "M2D": "HtoD", "D2H": "DtoH", "D2M": "DtoH", "D2D": "DtoD"},
}


@dataclass(frozen=True)
class Activities:
    """GPU activities of one device sorted by start; times in nanoseconds, `launch` is a row of the trace or -1.

    Rows take 32 bits if they fit, and kinds as few as they need.

    `kind` indexes `kinds`. `launcher` is the row of the launch, else of the operator that launched the activity by its
    external id, else -1. `launch_start` and `launch_end` are the times of its launcher, else those of the previous
    activity on its stream that has one, else the smallest integer for the head of the stream that was launched before
    the window.
    """

    row: Ints
    start: Ints
    end: Ints
    stream: Ids
    kind: Ids
    kinds: tuple[Kind, ...]
    launch: Ints
    launcher: Ints
    launch_start: Ints
    launch_end: Ints

    def __len__(self) -> int:
        return len(self.row)

    def of_family(self, *families: str) -> Mask:
        """Mask of the activities whose kind is of one of the families."""
        if not len(self):
            return np.zeros(0, bool)
        return np.array([k.family in families for k in self.kinds], bool)[self.kind]

    def tagged(self, *tags: str) -> Mask:
        """Mask of the activities whose kind has one of the tags."""
        if not len(self):
            return np.zeros(0, bool)
        return np.array([not k.tags.isdisjoint(tags) for k in self.kinds], bool)[self.kind]

    @cached_property
    def is_communication(self) -> Mask:
        """Mask, read-only, of the collective kernels."""
        return _kept(self.of_family(COMMUNICATION))

    @cached_property
    def is_copy(self) -> Mask:
        """Mask, read-only, of copies and fills done by the copy engine."""
        return _kept(self.of_family("memcpy", "memset"))

    @property
    def is_compute_bound(self) -> Mask:
        """Mask of the kernels that the matrix units bound, judged by kind."""
        if not len(self):
            return np.zeros(0, bool)
        return np.array([bound_by(k) == "compute" for k in self.kinds], bool)[self.kind]


def _kept(mask: Mask) -> Mask:
    mask.flags.writeable = False
    return mask


def activities_of(trace: Trace, captures: GraphCaptures) -> tuple[Activities, Launches]:
    """The activities of the busiest device, and the launches of all."""
    rows = np.flatnonzero(trace.rows_of(*GPU_CATEGORIES))
    if len(rows):
        busiest = _busiest(trace.pid[rows], trace.dur[rows])
        rows = rows[trace.pid[rows] == busiest]
    rows = rows[ordered(trace.ts[rows], trace.streams(rows), trace.correlation[rows], trace.dur[rows])]
    launch_rows = np.flatnonzero(trace.rows_of(*RUNTIME) & (trace.correlation > 0))
    launch = rows_in(_linked(trace, rows, launch_rows), len(trace))
    kind, kinds = _kinds(trace, rows)
    start = trace.ts[rows]
    launcher = _launchers(trace, rows, launch)
    launch_start, launch_end = _launched(trace, rows, launcher)
    activities = Activities(
        row=rows_in(rows, len(trace)),
        start=start,
        end=start + trace.dur[rows],
        stream=trace.streams(rows),
        kind=kind,
        kinds=kinds,
        launch=launch,
        launcher=launcher,
        launch_start=launch_start,
        launch_end=launch_end,
    )
    return activities, launches_of(trace, launch_rows, captures)


def _busiest(device: Ints, dur: Ints) -> int:
    devices, index = numbered(device)
    return int(devices[np.argmax(np.bincount(index, weights=dur))])


def _linked(trace: Trace, rows: Ints, launch_rows: Ints) -> Ints:
    """The runtime call with the correlation of each GPU row, else -1."""
    at = first_of(trace.correlation[launch_rows], trace.correlation[rows])
    return np.where(at >= 0, np.append(launch_rows, NOT_LAUNCHED)[at], NOT_LAUNCHED)


def _launchers(trace: Trace, rows: Ints, launch: Ints) -> Ints:
    """The launch of each GPU row, else the operator that launched it, else -1.

    If no operator is known, these are the launches themselves.
    """
    unlinked = np.flatnonzero(launch == NOT_LAUNCHED)
    operator = operators_by_id(trace, rows[unlinked])
    if not (operator >= 0).any():
        return launch
    launcher = launch.copy()
    launcher[unlinked] = operator
    return launcher


def _launched(trace: Trace, rows: Ints, launch: Ints) -> tuple[Ints, Ints]:
    """Launch times, of a call or an operator; an activity without either inherits those before it on its stream."""
    streams = trace.streams(rows)
    by_stream = np.argsort(streams, kind="stable")
    stream, launch_row = streams[by_stream], launch[by_stream]
    last = np.maximum.accumulate(np.where(launch_row >= 0, np.arange(len(launch_row)), -1))
    known = last >= np.searchsorted(stream, stream)
    absent = np.iinfo(np.int64).min
    start, end = np.full(len(rows), absent), np.full(len(rows), absent)
    start[by_stream[known]] = trace.ts[launch_row[last[known]]]
    end[by_stream[known]] = trace.ends(launch_row[last[known]])
    return start, end


def _kinds(trace: Trace, rows: Ints) -> tuple[Ids, tuple[Kind, ...]]:
    pairs = trace.name[rows].astype(np.int64) * len(trace.cats) + trace.cat[rows]
    distinct, index = numbered(pairs)
    kinds = [_kind(trace.names[p // len(trace.cats)], trace.cats[p % len(trace.cats)]) for p in distinct]
    unique = tuple(dict.fromkeys(kinds))
    number = {k: i for i, k in enumerate(unique)}
    return shortened(np.array([number[k] for k in kinds], np.int64), len(unique))[index], unique


def _kind(name: str, category: str) -> Kind:
    category = category.lower()
    if category.endswith("memset"):
        return Kind("memset", "memset")
    if category.endswith("memcpy"):
        match = _COPY_KIND.search(name)
        return Kind("memcpy", _COPY_ALIASES.get(match[0], match[0]) if match else "unknown")
    return classify(name)
