"""Decoded events to growing columns."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import compress
from operator import attrgetter, not_
from typing import Any

import numpy as np

from diagnose.arrays import ABSENT, Array, Floats, Ids, Ints
from diagnose.decoding import MOST_RANKS, encodable
from diagnose.formulas.kineto import DOUBLE_IS_EXACT_BELOW_US, NO_TIME, nanoseconds
from diagnose.trace.arguments import MOST_ELEMENTS
from diagnose.trace.columns import Collectives, ReadingLoss, Trace
from diagnose.trace.events import NO_NUMBER, Args, Chunk, Event, ExactEvent, Instant
from diagnose.trace.memory_series import MOST_MEMORY_BYTES, MemorySeries, joined_series, memory_series
from diagnose.trace.numbers import as_int, exact_nanoseconds, floats, integers, within
from diagnose.trace.scanning import Scanned, Scanning, scanning_of
from diagnose.trace.spill import Growing

_CALL_INTEGERS: Mapping[str, int] = {  # each with the largest that can be meant
    "elements_in": MOST_ELEMENTS,
    "elements_out": MOST_ELEMENTS,
    "group_size": MOST_RANKS,
    "seq": 1 << 62,
    "receiver": MOST_RANKS,
    "sender": MOST_RANKS,
}
_CALL_TEXTS = {"name": "collective", "group": "group", "dtype": "dtype", "group_ranks": "group_ranks"}
_integers_of_call = attrgetter(*_CALL_INTEGERS)
DTYPES: Mapping[str, Any] = {
    **dict.fromkeys(("ts", "dur", "pid", "tid", "correlation", "external_id", "bytes"), np.int64),
    **dict.fromkeys(("name", "cat", "stream", "device", "shape", "block_threads", "occupancy_percent"), np.int32),
    "blocks_per_sm": np.float64,
}
"""Of the columns as they are read. In a trace those of `NARROWED` are as narrow as what they hold."""
NARROWED = frozenset(DTYPES) - {"ts", "dur", "blocks_per_sm"}
_CALLS_AT_ONCE = 4096  # few of a chunk's events are collectives
_MAX_NAME = 4096
_MOST_PERCENT = 100
_MOST_BLOCK_THREADS = 1024  # of CUDA and ROCm
_LONGEST_CALL_TEXT = 1 << 16  # the list of a group's ranks


def growing(column: str) -> Growing:
    """An empty column of that name."""
    return Growing(None if column in NARROWED else DTYPES[column])


class Interner(dict[Any, int]):
    """Gives each distinct key the next small integer."""

    def __missing__(self, key: Any) -> int:
        self[key] = len(self)
        return self[key]


class Names(Interner):
    """Interned names of events; only the beginning of a long name counts."""

    def __missing__(self, key: str) -> int:
        return super().__missing__(key) if len(key) <= _MAX_NAME else self[key[:_MAX_NAME]]


class ColumnBuilder:
    """Collect chunks of events; `trace` joins them.

    Args:
        held_bytes: columns that grow larger are written to disk, None keeps all of them in memory.
        left_out: categories, in lower case, whose events are not kept.

    Attributes:
        seen: number of events that are not complete events.
        not_finite: complete events dropped because their time is not a number.
        without_phase: objects without a phase.
        skipped: events of the categories left out, by category.
    """

    def __init__(self, held_bytes: int | None = None, left_out: frozenset[str] = frozenset()) -> None:
        self.seen = 0
        self.not_finite = 0
        self.without_phase = 0
        self.skipped: dict[str, int] = {}
        self.memory: dict[int, MemorySeries] = {}
        self._left_out = left_out
        self._held_bytes = held_bytes
        self._names, self._cats, self._shapes = Names(), Interner(), Interner()
        self._columns = {name: growing(name) for name in DTYPES}
        self._calls = {field: Growing() for field in ("row", *_CALL_INTEGERS)}
        self._held_calls: list[tuple[int, ...]] = []
        self._texts: dict[str, list[str]] = {field: [] for field in _CALL_TEXTS}
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    def scanning(self, ahead: bool = False) -> Scanning | None:
        """A reader of chunks for `put`, in parallel if `ahead`; None if each chunk has to go through `add`."""
        return scanning_of((self._names, self._cats, self._shapes), sorted(self._left_out), ahead)

    def add(self, chunk: Chunk) -> None:
        """Appends a chunk of events."""
        self.seen += chunk.others
        self.without_phase += chunk.without_phase
        complete, us = chunk.complete, chunk.us
        if chunk.allocations:
            self._put_allocations(chunk.allocations, None if us is None else us[len(complete) :])
            us = None if us is None else us[: len(complete)]
        if self._left_out and complete:
            complete, us = self._without_left_out(complete, us)
        if not complete:
            return
        ts = _times(complete, us)
        dur_us = floats([e.dur for e in complete])
        sound = (np.abs(dur_us) < DOUBLE_IS_EXACT_BELOW_US) & (ts != NO_TIME)
        if not sound.all():
            self.not_finite += int((~sound).sum())
            complete = [e for e, ok in zip(complete, sound, strict=True) if ok]
            ts, dur_us = ts[sound], dur_us[sound]
        self._put("ts", ts)
        self._put("dur", nanoseconds(dur_us))
        self._put_scalars(complete)
        self._put_args([_NO_ARGS if e.args is None else e.args for e in complete])
        self._rows += len(complete)
        if self._held_bytes is not None:
            self._spill(self._held_bytes)

    def put(self, scanned: Scanned) -> None:
        """Appends the columns of a chunk."""
        self.seen += scanned.others
        self.not_finite += scanned.not_finite
        for category, events in scanned.left_out.items():
            self.skipped[category] = self.skipped.get(category, 0) + events
        self._put_memory(scanned.memory)
        if not len(scanned.columns["ts"]):
            return
        for name, column in scanned.columns.items():
            self._put(name, column)
        self._hold_calls(scanned.calls)
        self._rows += len(scanned.columns["ts"])
        if self._held_bytes is not None:
            self._spill(self._held_bytes)

    def _without_left_out(
        self, complete: Sequence[Event | ExactEvent], us: Floats | None
    ) -> tuple[Sequence[Event | ExactEvent], Floats | None]:
        kept = [e.cat.lower() not in self._left_out for e in complete]
        for event in compress(complete, map(not_, kept)):
            self.skipped[event.cat.lower()] = self.skipped.get(event.cat.lower(), 0) + 1
        return list(compress(complete, kept)), None if us is None else us[kept]

    def _put_scalars(self, complete: Sequence[Event | ExactEvent]) -> None:
        n, names, cats = len(complete), self._names, self._cats
        self._put("name", np.fromiter([names[e.name] for e in complete], np.int32, n))
        self._put("cat", np.fromiter([cats[e.cat] for e in complete], np.int32, n))
        self._put("pid", integers([e.pid for e in complete]))
        self._put("tid", integers([e.tid for e in complete]))

    def _put_args(self, args: Sequence[Args]) -> None:
        self._put("correlation", integers([a.correlation for a in args]))
        external = integers([a.external_id for a in args])
        old = np.flatnonzero(external == ABSENT)
        if len(old):
            external[old] = integers([args[row].external_id_before_2021 for row in old.tolist()])
        self._put("external_id", external)
        self._put_device(args)
        self._put_shapes(args)
        self._hold_calls(enumerate(args))

    def _put_device(self, args: Sequence[Args]) -> None:
        """Add the arguments that activities of the device have, and few other events."""
        rows = [
            row
            for row, a in enumerate(args)
            if a.stream is not ABSENT
            or a.device is not ABSENT
            or a.bytes is not ABSENT
            or a.blocks_per_sm is not NO_NUMBER
        ]
        held = [args[row] for row in rows]
        self._put_few("stream", rows, _as_int32(integers([a.stream for a in held])), len(args))
        self._put_few("device", rows, _as_int32(integers([a.device for a in held])), len(args))
        self._put_few("bytes", rows, within(integers([a.bytes for a in held]), MOST_MEMORY_BYTES), len(args))
        blocks = floats([a.blocks_per_sm for a in held])
        self._put_few("blocks_per_sm", rows, blocks, len(args), NO_NUMBER)
        threads = _block_threads(floats([a.warps_per_sm for a in held]), blocks)
        self._put_few("block_threads", rows, threads, len(args))
        percent = within(integers([a.occupancy_percent for a in held]), _MOST_PERCENT)
        self._put_few("occupancy_percent", rows, _as_int32(percent), len(args))

    def _put_shapes(self, args: Sequence[Args]) -> None:
        shape = np.full(len(args), ABSENT, np.int32)
        for row in [row for row, a in enumerate(args) if a.dims is not a.dims_before_2021]:  # both absent: NO_JSON
            a = args[row]
            dims = bytes(a.dims) or bytes(a.dims_before_2021)
            shape[row] = self._shapes[dims, bytes(a.types), bytes(a.concrete)]
        self._put("shape", shape)

    def _hold_calls(self, of_chunk: Iterable[tuple[int, Args]]) -> None:
        """Notes the collectives among rows of the chunk at hand until there are many.

        It keeps plain values, because decoded arguments keep the text of the whole chunk in memory.
        """
        for row, args in of_chunk:
            if args.collective is not None:
                self._held_calls.append((self._rows + row, *map(as_int, _integers_of_call(args))))
                for field, told in _CALL_TEXTS.items():
                    self._texts[field].append(_text(getattr(args, told)))
        if len(self._held_calls) >= _CALLS_AT_ONCE:
            self._put_calls()

    def _put_calls(self) -> None:
        held, self._held_calls = self._held_calls, []
        row, *told = np.array(held, np.int64).reshape(-1, 1 + len(_CALL_INTEGERS)).T
        self._calls["row"].append(row)
        for (field, most), values in zip(_CALL_INTEGERS.items(), told, strict=True):
            self._calls[field].append(within(values, most))

    def _put_allocations(self, allocations: Sequence[Instant | ExactEvent], us: Floats | None) -> None:
        told = [_NO_ARGS if e.args is None else e.args for e in allocations]
        fields = (
            _times(allocations, us),
            integers([args.allocated for args in told]),
            integers([args.reserved for args in told]),
            integers([args.device_id for args in told]),
            integers([args.device_type for args in told]),
        )
        self._put_memory(np.array(fields, np.int64))

    def _put_memory(self, told: Ints) -> None:
        """Adds allocations: times, bytes allocated and reserved, devices and types of devices."""
        if told.shape[1]:
            self.memory = joined_series([self.memory, memory_series(*told)])

    def _put_few(self, column: str, rows: Sequence[int], values: Array, n: int, otherwise: float = ABSENT) -> None:
        whole = np.full(n, otherwise, DTYPES[column])
        whole[rows] = values
        self._put(column, whole)

    def _put(self, column: str, values: Array) -> None:
        self._columns[column].append(values)

    def _spill(self, limit: int) -> None:
        growing = [*self._columns.values(), *self._calls.values()]
        if sum(column.held_bytes for column in growing) > limit:
            for column in growing:
                column.spill()

    def trace(self, path: str, size: int, loss: ReadingLoss) -> Trace:
        """The finished columns; `shapes` are as they are written, since shares are joined by them."""
        return Trace(
            path=path,
            size=size,
            **{name: self._columns.pop(name).finished() for name in DTYPES},
            names=tuple(self._names),
            cats=tuple(self._cats),
            shapes=tuple(self._shapes),
            collectives=self._collective_table(),
            memory=self.memory,
            metadata={},
            loss=loss,
            left_out={category: self.skipped[category] for category in sorted(self.skipped)},
        )

    def _collective_table(self) -> Collectives:
        self._put_calls()
        columns: dict[str, Any] = {field: column.finished() for field, column in self._calls.items()}
        texts: dict[str, Any] = {field: tuple(values) for field, values in self._texts.items()}
        return Collectives(**columns, **texts)


_NO_ARGS = Args()


def _times(events: Sequence[Any], us: Floats | None) -> Ints:
    """The times of events in nanoseconds: their digits' if `us` does not hold them."""
    return exact_nanoseconds([e.ts for e in events]) if us is None else nanoseconds(us)


def _text(value: object) -> str:
    """A text field of a collective; of a list of ranks its text, of what is too long none."""
    text = "" if value is None else value if isinstance(value, str) else str(value)
    return _held(text) if len(text) <= _LONGEST_CALL_TEXT else ""


@lru_cache(maxsize=256)  # a job has few groups, and each text once
def _held(text: str) -> str:
    return sys.intern(encodable(text))


def _block_threads(warps_per_sm: Floats, blocks_per_sm: Floats) -> Ids:
    """Threads of a block, ABSENT if unknown: Kineto spreads warps of 32, and blocks, over one device."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        threads = np.rint(32 * warps_per_sm / blocks_per_sm)
    sound = (threads >= 1) & (threads <= _MOST_BLOCK_THREADS)
    return np.where(sound, threads, ABSENT).astype(np.int32)


def _as_int32(values: Ints) -> Ids:
    return np.where(np.abs(values) < 1 << 31, values, ABSENT).astype(np.int32)
