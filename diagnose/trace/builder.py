"""Decoded events to growing columns."""

import math
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from diagnose.trace.columns import ABSENT, Collectives, Ids, Loss, Trace
from diagnose.trace.events import AnyEvent, Args, Event, as_int, as_number, exact_ns

_ARGS_COLUMNS = ("stream", "device", "correlation", "bytes")
_MAX_NAME = 4096


class Interner(dict[Any, int]):
    """Gives each distinct key the next small integer."""

    def __missing__(self, key: Any) -> int:
        self[key] = len(self)
        return self[key]


class ColumnBuilder:
    """Collects chunks of events; `trace` joins them."""

    def __init__(self) -> None:
        self.seen = 0
        self.names, self.cats, self.shapes = Interner(), Interner(), Interner()
        self.not_finite = 0
        self._chunks: dict[str, list[NDArray[Any]]] = {}
        self._collectives: list[tuple[int, Args]] = []
        self._rows = 0
        self.memory_reserved: dict[int, int] = {}
        self.process_names: dict[int, str] = {}

    def __len__(self) -> int:
        return self._rows

    def add(self, events: Sequence[AnyEvent]) -> None:
        """Appends a chunk of one event type."""
        if events and isinstance(events[0], Event):
            self._append(events, self._double_times)
        else:
            self.add_exact(events)

    def add_exact(self, events: Sequence[AnyEvent]) -> None:
        """Appends events whose times are digits."""
        self._append(events, self._digit_times)

    def _append(self, events: Sequence[AnyEvent], times: Callable[[Sequence[Any]], NDArray[np.int64]]) -> None:
        self.seen += len(events)
        complete = [e for e in events if e.ph == "X"]
        if len(complete) != len(events):
            self._instants(e for e in events if e.ph == "i")
        if not complete:
            return
        n = len(complete)
        dur_us = np.fromiter(map(attrgetter("dur"), complete), np.float64, n)
        ts = times(complete)
        valid = np.isfinite(dur_us) & (np.abs(dur_us) < 9e12) & (ts != np.iinfo(np.int64).min)
        if not valid.all():
            self.not_finite += int((~valid).sum())
            complete = [e for e, ok in zip(complete, valid, strict=True) if ok]
            ts, dur_us, n = ts[valid], dur_us[valid], len(complete)
        self._put("ts", ts)
        self._put("dur", nanoseconds(dur_us))
        self._put("name", np.fromiter((self.names[e.name[:_MAX_NAME]] for e in complete), np.int32, n))
        self._put("cat", np.fromiter((self.cats[e.cat] for e in complete), np.int32, n))
        self._put("pid", np.fromiter((as_int(e.pid) for e in complete), np.int64, n))
        self._put("tid", np.fromiter((as_int(e.tid) for e in complete), np.int64, n))
        self._put_args(complete, n)
        self._rows += n

    def _put_args(self, complete: Sequence[AnyEvent], n: int) -> None:
        rows = [i for i, e in enumerate(complete) if e.args is not None]
        args: list[Args] = [complete[i].args for i in rows]  # type: ignore[misc]
        for column in _ARGS_COLUMNS:
            values = np.full(n, ABSENT, np.int64)
            values[rows] = np.fromiter((as_int(v) for v in map(attrgetter(column), args)), np.int64, len(rows))
            self._put(column, values)
        external = np.full(n, ABSENT, np.int64)
        external[rows] = [
            as_int(a.external_id if a.external_id is not None else a.external_id_before_2021) for a in args
        ]
        self._put("external_id", external)
        shape, blocks = np.full(n, ABSENT, np.int32), np.full(n, np.nan)
        for row, a in zip(rows, args, strict=True):
            dims = bytes(a.dims) or bytes(a.dims_before_2021)
            if dims:
                shape[row] = self.shapes[dims, bytes(a.types), bytes(a.concrete)]
            if a.blocks_per_sm is not None:
                number = as_number(a.blocks_per_sm)
                blocks[row] = math.nan if number is None else number
            if a.collective is not None:
                self._collectives.append((self._rows + row, a))
        self._put("shape", shape)
        self._put("blocks_per_sm", blocks)

    def _instants(self, events: Any) -> None:
        for event in events:
            if event.name == "[memory]" and event.args is not None and as_int(event.args.device_type) == 1:
                device = as_int(event.args.device_id)
                reserved = as_int(event.args.reserved, 0)
                self.memory_reserved[device] = max(self.memory_reserved.get(device, 0), reserved)

    def _double_times(self, events: Sequence[Event]) -> NDArray[np.int64]:
        return nanoseconds(np.fromiter(map(attrgetter("ts"), events), np.float64, len(events)))

    def _digit_times(self, events: Sequence[Any]) -> NDArray[np.int64]:
        absent = int(np.iinfo(np.int64).min)
        found = (_digits(e) for e in events)
        return np.fromiter((absent if ns is None else ns for ns in found), np.int64, len(events))

    def _put(self, column: str, values: NDArray[Any]) -> None:
        self._chunks.setdefault(column, []).append(values)

    def _column(self, name: str) -> NDArray[Any]:
        chunks = self._chunks.pop(name)
        return chunks[0] if len(chunks) == 1 else np.concatenate(chunks)

    def trace(self, path: str, size: int, metadata: dict[str, Any], loss: Loss) -> Trace:
        """The finished columns."""
        if self.not_finite:
            loss.count("non-finite-number", events=self.not_finite)
        small: tuple[str, ...] = ("stream", "device", "shape")
        columns = {name: self._column(name) for name in tuple(self._chunks)}
        columns |= {name: columns[name].astype(np.int32) for name in small}
        return Trace(
            path=path,
            size=size,
            **columns,
            names=tuple(self.names),
            cats=tuple(self.cats),
            shapes=tuple(self.shapes),
            collectives=self._collective_table(),
            memory_reserved=self.memory_reserved,
            metadata=metadata,
            loss=loss,
        )

    def _collective_table(self) -> Collectives:
        rows = [row for row, _ in self._collectives]
        args = [a for _, a in self._collectives]

        def numbers(field: str) -> NDArray[np.int64]:
            return np.array([as_int(getattr(a, field)) for a in args], np.int64)

        return Collectives(
            row=np.array(rows, np.int64),
            name=tuple(str(a.collective) for a in args),
            group=tuple("" if a.group is None else str(a.group) for a in args),
            dtype=tuple("" if a.dtype is None else str(a.dtype) for a in args),
            elements_in=numbers("elements_in"),
            elements_out=numbers("elements_out"),
            group_size=numbers("group_size"),
            seq=numbers("seq"),
        )


def nanoseconds(us: NDArray[np.float64]) -> NDArray[np.int64]:
    """Microseconds with three decimals to exact integer nanoseconds (|us| < 2**43); not finite becomes the minimum.

    The whole and the fractional part are scaled apart: their product with 1000 is exact, that of the sum is not.
    """
    safe = np.where(np.isfinite(us), us, 0.0)
    fraction, whole = np.modf(safe)
    ns = whole.astype(np.int64) * 1000 + np.rint(fraction * 1000).astype(np.int64)
    return np.where(np.isfinite(us), ns, np.iinfo(np.int64).min)


def _digits(event: Any) -> int | None:
    if isinstance(event, Event):
        return None if not math.isfinite(event.ts) else int(nanoseconds(np.array([event.ts]))[0])
    return exact_ns(bytes(event.ts)) if isinstance(event.ts, msgspec.Raw) else None


__all__ = ["ColumnBuilder", "Ids", "Interner", "nanoseconds"]
