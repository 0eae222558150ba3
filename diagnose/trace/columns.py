"""The columns of one rank's trace, and what of the file could not be used."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from diagnose.arrays import ABSENT, Array, Floats, Ints, Mask, distinct, marked
from diagnose.trace.distributed import Distributed, distributed_of
from diagnose.trace.spill import like

if TYPE_CHECKING:
    from diagnose.trace.memory_series import MemorySeries

Json = bytes

_BLOCK = 1 << 16  # events whose columns stay in the processor's cache
PROCESSES = "nsightProcesses"  # the key of the list of the processes that an export's ranks are
NSIGHT = "ofNsightSystems"  # the top-level key of a trace that comes from an export of Nsight Systems


@dataclass
class ReadingLoss:
    """The losses and alterations of reading, by kind."""

    events: int = 0
    bytes: int = 0
    truncated: bool = False
    kinds: dict[str, int] = field(default_factory=dict)

    def count(self, kind: str, *, events: int = 0, size: int = 0) -> None:
        """Books `events` dropped events and `size` lost bytes under `kind`."""
        self.events += events
        self.bytes += size
        self.kinds[kind] = self.kinds.get(kind, 0) + 1

    def __bool__(self) -> bool:
        return bool(self.events or self.bytes or self.truncated or self.kinds)


@dataclass(frozen=True)
class Collectives:
    """Fields of collective operations, one row for each event that carries them.

    `row` indexes the trace's events; `elements` are input elements, ABSENT when not recorded; `seq` is ABSENT on
    traces written before Kineto recorded it. `group_ranks` is the list as text, "" when not recorded, with an ellipsis
    after 30 ranks. A send names its `receiver`, a receive its `sender`, each a rank of the job, else ABSENT.
    """

    row: Ints
    name: tuple[str, ...]
    group: tuple[str, ...]
    dtype: tuple[str, ...]
    elements_in: Ints
    elements_out: Ints
    group_size: Ints
    seq: Ints
    group_ranks: tuple[str, ...]
    receiver: Ints
    sender: Ints


@dataclass(frozen=True)
class Trace:
    """The complete ("X") events of one file as arrays of equal length, in file order.

    Times are int64 nanoseconds on the file's own clock; absolute time is `base_ns + ts`. `name` and `cat` index `names`
    and `cats`. `pid`, `tid`, `stream`, `device`, `correlation`, `external_id` and `bytes` are ABSENT (-1) if the event
    has none, and so are `block_threads` and `occupancy_percent` (Kineto's estimate) of kernels. `shape` indexes
    `shapes`, each the raw JSON of (input dims, input types, concrete inputs). `left_out` counts the events that were
    read but not kept on request, by category. `memory` is by device, the host's under HOST.

    `ts` and `dur` are int64, `blocks_per_sm` is float64. Each other column has the narrowest signed type that holds its
    values: it is widened before anything is added to it or multiplied.
    """

    path: str
    size: int
    ts: Ints
    dur: Ints
    name: Array
    cat: Array
    pid: Array
    tid: Array
    stream: Array
    device: Array
    correlation: Array
    external_id: Array
    bytes: Array
    blocks_per_sm: Floats
    block_threads: Array
    occupancy_percent: Array
    shape: Array
    names: tuple[str, ...]
    cats: tuple[str, ...]
    shapes: tuple[tuple[Json, Json, Json], ...]
    collectives: Collectives
    memory: "Mapping[int, MemorySeries]"
    metadata: Mapping[str, Any]
    loss: ReadingLoss
    left_out: Mapping[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ts)

    @property
    def base_ns(self) -> int:
        """Absolute time of ts 0 in nanoseconds since the epoch; 0 when the file's clock is absolute already."""
        base = self.metadata.get("baseTimeNanoseconds", 0)
        return int(base) if isinstance(base, int | float) and math.isfinite(base) else 0

    @property
    def of_nsight(self) -> bool:
        """Whether it was exported by Nsight Systems, which records neither shapes nor arguments of operators."""
        return bool(self.metadata.get(NSIGHT))

    @property
    def recorded_process(self) -> str:
        """The process of an export that the trace is of, in words; "" if it is another file's, or holds several."""
        processes = self.metadata.get(PROCESSES)
        return str(processes[0]) if isinstance(processes, list) and len(processes) == 1 else ""

    @cached_property
    def distributed(self) -> Distributed | None:
        """The statements of the file about its job, None if there are none."""
        return distributed_of(self.metadata)

    def ends(self, rows: Array) -> Ints:
        """End times of the events that `rows` selects."""
        return self.ts[rows] + self.dur[rows]

    def streams(self, rows: Array) -> Array:
        """The stream of each activity of a device: what it states, else the lane in which it is drawn, as XPU's are."""
        stated = self.stream[rows]
        unstated = stated == ABSENT
        return np.where(unstated, self.tid[rows], stated) if unstated.any() else stated

    def rows_of(self, *categories: str) -> Mask:
        """Mask of the events whose category is one of `categories` (compared without case)."""
        are = self._are(*categories)
        key = tuple(np.flatnonzero(are).tolist())
        if key not in self._masks:
            self._masks[key] = np.packbits(marked(are, self.cat))
        return np.unpackbits(self._masks[key], count=len(self)).view(bool)

    def _are(self, *categories: str) -> Mask:
        wanted = frozenset(c.lower() for c in categories)
        return np.array([c.lower() in wanted for c in self.cats], bool)

    @cached_property
    def _masks(self) -> dict[tuple[int, ...], Array]:
        """Cache of `rows_of`, which is called for the same few categories many times; a bit for each event."""
        return {}

    def named(self, wanted: Callable[[str], object]) -> Mask:
        """Mask of the events whose name is wanted; each name is asked once."""
        return marked(np.array([bool(wanted(name)) for name in self.names], bool), self.name)

    def named_in(self, wanted: Callable[[str], object], *categories: str) -> Mask:
        """The same of the events whose category is one of `categories`; no other name is asked."""
        marks = np.zeros(len(self.names), bool)
        marks[[name for name in self._names_in(*categories).tolist() if wanted(self.names[name])]] = True
        if not marks.any():
            return np.zeros(len(self), bool)
        return marked(marks, self.name) & self.rows_of(*categories)

    def names_of(self, *categories: str) -> list[str]:
        """The names of the events whose category is one of `categories`, each once."""
        return [self.names[name] for name in self._names_in(*categories)]

    def _names_in(self, *categories: str) -> Ints:
        names, cats = self._kinds
        there = np.zeros(len(self.names), bool)
        there[names[self._are(*categories)[cats]]] = True
        return np.flatnonzero(there)

    @cached_property
    def _kinds(self) -> tuple[Ints, Ints]:
        """Name and category of the events, each pair once."""
        blocks = (slice(begin, begin + _BLOCK) for begin in range(0, len(self), _BLOCK))
        pairs = [distinct(self.name[b].astype(np.int64) * len(self.cats) + self.cat[b]) for b in blocks]
        return np.divmod(distinct(np.concatenate([np.zeros(0, np.int64), *pairs])), max(len(self.cats), 1))

    def select(self, keep: Mask) -> "Trace":
        """The same trace with only the events marked in `keep`."""
        columns: dict[str, Any] = {}
        for f in fields(self):
            if isinstance(column := getattr(self, f.name), np.ndarray):
                columns[f.name] = like(column, column[keep])
        return replace(self, **columns, collectives=_select_collectives(self.collectives, keep))

    def divided(self, groups: Sequence[Ints]) -> "Iterator[Trace]":
        """The same trace with only the events of each group, whose rows are in order and in no other group."""
        columns = {f.name: column for f in fields(self) if isinstance(column := getattr(self, f.name), np.ndarray)}
        group, place = np.full(len(self), ABSENT), np.zeros(len(self), np.int64)
        for number, rows in enumerate(groups):
            group[rows], place[rows] = number, np.arange(len(rows))
        table = self.collectives
        calls = np.argsort(group[table.row], kind="stable")
        ends = np.searchsorted(group[table.row][calls], np.arange(len(groups) + 1))
        for number, rows in enumerate(groups):
            own: dict[str, Any] = {name: like(column, column[rows]) for name, column in columns.items()}
            picked = calls[ends[number] : ends[number + 1]]
            yield replace(self, **own, collectives=_picked(table, picked, place[table.row[picked]]))


def _select_collectives(table: Collectives, keep: Mask) -> Collectives:
    index = np.flatnonzero(keep[table.row])
    return _picked(table, index, (np.cumsum(keep) - 1)[table.row[index]])


def _picked(table: Collectives, index: Ints, row: Ints) -> Collectives:
    """The collectives at the given places, with the rows that their events have now."""
    return Collectives(
        row=row.astype(np.int64),
        name=tuple(table.name[i] for i in index),
        group=tuple(table.group[i] for i in index),
        dtype=tuple(table.dtype[i] for i in index),
        elements_in=table.elements_in[index],
        elements_out=table.elements_out[index],
        group_size=table.group_size[index],
        seq=table.seq[index],
        group_ranks=tuple(table.group_ranks[i] for i in index),
        receiver=table.receiver[index],
        sender=table.sender[index],
    )
