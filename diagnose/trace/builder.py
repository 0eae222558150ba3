"""Decoded events to growing columns."""

from collections.abc import Sequence
from itertools import compress
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diagnose.formulas.kineto import DOUBLE_IS_EXACT_BELOW_US, NO_TIME, nanoseconds
from diagnose.trace.columns import ABSENT, Collectives, Loss, Trace
from diagnose.trace.events import NO_JSON, AnyEvent, Args, Event
from diagnose.trace.numbers import as_int, exact_nanoseconds, floats, integers

_ARGS_COLUMNS = ("stream", "device", "correlation", "bytes", "external_id")
_SMALL_COLUMNS = ("stream", "device", "shape")
_MAX_NAME = 4096


class Interner(dict[Any, int]):
    """Gives each distinct key the next small integer."""

    def __missing__(self, key: Any) -> int:
        self[key] = len(self)
        return self[key]


class ColumnBuilder:
    """Collects chunks of events; `trace` joins them.

    Attributes:
        seen: events that are not complete ones.
        not_finite: complete events dropped because their time is no number.
        without_phase: objects that do not say what they are.
    """

    def __init__(self) -> None:
        self.seen = 0
        self.not_finite = 0
        self.without_phase = 0
        self.memory_reserved: dict[int, int] = {}
        self._names, self._cats, self._shapes = Interner(), Interner(), Interner()
        self._chunks: dict[str, list[NDArray[Any]]] = {}
        self._collectives: list[tuple[int, Args]] = []
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    def add(self, events: Sequence[AnyEvent]) -> None:
        """Appends a chunk of events of one type."""
        complete: Sequence[AnyEvent] = [e for e in events if e.ph == "X"]
        if len(complete) != len(events):
            self._put_others([e for e in events if e.ph != "X"])
        if not complete:
            return
        ts, dur_us = _times(complete), floats(_each(complete, "dur"))
        sound = (np.abs(dur_us) < DOUBLE_IS_EXACT_BELOW_US) & (ts != NO_TIME)
        if not sound.all():
            self.not_finite += int((~sound).sum())
            complete = [e for e, ok in zip(complete, sound, strict=True) if ok]
            ts, dur_us = ts[sound], dur_us[sound]
        self._put("ts", ts)
        self._put("dur", nanoseconds(dur_us))
        self._put_scalars(complete)
        self._put_args(complete)
        self._rows += len(complete)

    def _put_scalars(self, complete: Sequence[AnyEvent]) -> None:
        n = len(complete)
        self._put("name", np.fromiter([self._names[e.name[:_MAX_NAME]] for e in complete], np.int32, n))
        self._put("cat", np.fromiter(map(self._cats.__getitem__, _each(complete, "cat")), np.int32, n))
        self._put("pid", integers(_each(complete, "pid")))
        self._put("tid", integers(_each(complete, "tid")))

    def _put_args(self, complete: Sequence[AnyEvent]) -> None:
        n = len(complete)
        args = [_NO_ARGS if e.args is None else e.args for e in complete]
        for column in _ARGS_COLUMNS:
            values = integers(_each(args, column))
            if column == "external_id":
                values = np.where(values == ABSENT, integers(_each(args, "external_id_before_2021")), values)
            self._put(column, values)
        self._put("blocks_per_sm", floats(_each(args, "blocks_per_sm")))
        shape = np.full(n, ABSENT, np.int32)
        for row, a in enumerate(args):
            if a.dims is not NO_JSON or a.dims_before_2021 is not NO_JSON:
                dims = bytes(a.dims) or bytes(a.dims_before_2021)
                shape[row] = self._shapes[dims, bytes(a.types), bytes(a.concrete)]
        self._put("shape", shape)
        self._collectives += [(self._rows + row, a) for row, a in enumerate(args) if a.collective is not None]

    def _put_others(self, others: Sequence[AnyEvent]) -> None:
        phases = _each(others, "ph")
        without_phase = phases.count("")
        self.without_phase += without_phase
        self.seen += len(others) - without_phase
        for event in compress(others, [phase == "i" for phase in phases]):
            if event.name == "[memory]" and event.args is not None and as_int(event.args.device_type) == 1:
                device = as_int(event.args.device_id)
                reserved = as_int(event.args.reserved, 0)
                self.memory_reserved[device] = max(self.memory_reserved.get(device, 0), reserved)

    def _put(self, column: str, values: NDArray[Any]) -> None:
        self._chunks.setdefault(column, []).append(values)

    def _column(self, name: str) -> NDArray[Any]:
        chunks = self._chunks.pop(name)
        whole = chunks[0] if len(chunks) == 1 else np.concatenate(chunks)
        return whole if name not in _SMALL_COLUMNS else _as_int32(whole)

    def trace(self, path: str, size: int, metadata: dict[str, Any], loss: Loss) -> Trace:
        """The finished columns."""
        if self.not_finite:
            loss.count("non-finite-number", events=self.not_finite)
        if self.without_phase:
            loss.count("event-without-phase", events=self.without_phase)
        return Trace(
            path=path,
            size=size,
            **{name: self._column(name) for name in tuple(self._chunks)},
            names=tuple(self._names),
            cats=tuple(self._cats),
            shapes=tuple(self._shapes),
            collectives=self._collective_table(),
            memory_reserved=self.memory_reserved,
            metadata=metadata,
            loss=loss,
        )

    def _collective_table(self) -> Collectives:
        args = [a for _, a in self._collectives]
        return Collectives(
            row=np.array([row for row, _ in self._collectives], np.int64),
            name=_texts(args, "collective"),
            group=_texts(args, "group"),
            dtype=_texts(args, "dtype"),
            group_ranks=_texts(args, "group_ranks"),
            elements_in=integers(_each(args, "elements_in")),
            elements_out=integers(_each(args, "elements_out")),
            group_size=integers(_each(args, "group_size")),
            seq=integers(_each(args, "seq")),
            receiver=integers(_each(args, "receiver")),
            sender=integers(_each(args, "sender")),
        )


_NO_ARGS = Args()


def _each(items: Sequence[Any], field: str) -> list[Any]:
    return list(map(attrgetter(field), items))


def _texts(args: Sequence[Args], field: str) -> tuple[str, ...]:
    return tuple("" if value is None else str(value) for value in _each(args, field))


def _times(complete: Sequence[AnyEvent]) -> NDArray[np.int64]:
    stamps = _each(complete, "ts")
    if isinstance(complete[0], Event):
        return nanoseconds(np.fromiter(stamps, np.float64, len(stamps)))
    return exact_nanoseconds(stamps)


def _as_int32(values: NDArray[np.int64]) -> NDArray[np.int32]:
    return np.where(np.abs(values) < 1 << 31, values, ABSENT).astype(np.int32)
