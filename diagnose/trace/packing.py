"""Store a trace in a file whose columns are mapped and not copied, and check it when it is read.

After a mark come the columns, one after the other as in memory, then a JSON footer that describes them, then the
footer's length and checksum. A column that is constant takes no bytes. Nothing in the file is code: it is numbers and
JSON.

Checksums show damage, not who wrote the file: its footer is checked against what `pack` can write.
"""

import json
import mmap
import os
import struct
import zlib
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Annotated, Any, BinaryIO, Literal

import msgspec
import numpy as np

from diagnose.arrays import Array
from diagnose.trace.builder import DTYPES, NARROWED
from diagnose.trace.checks import without_impossible_events
from diagnose.trace.columns import Collectives, ReadingLoss, Trace
from diagnose.trace.memory_series import MOST_BUCKETS, MemorySeries
from diagnose.trace.ownership import MARK
from diagnose.trace.source import fast_zlib

_END = struct.Struct("<QI12s")
_MAGIC = b"diagnose/1\r\n"
_COLUMNS = {name: np.dtype(dtype) for name, dtype in DTYPES.items()}
_CALL_TEXTS = ("name", "group", "dtype", "group_ranks")
_CALL_COLUMNS = {f.name: np.dtype(np.int64) for f in fields(Collectives) if f.name not in _CALL_TEXTS}
_ALIGNED = 64  # bytes: a column begins at a multiple of it
_LARGEST_FOOTER = 1 << 30
_LEAST_EVENT_BYTES = len(b'{"ph":"X","ts":1}')
_LARGEST_TEXT = 1 << 50
_LATEST_NS = 1 << 62

_Count = Annotated[int, msgspec.Meta(ge=0, le=_LARGEST_TEXT)]
_Buckets = Annotated[
    list[Annotated[int, msgspec.Meta(ge=-_LATEST_NS, le=_LATEST_NS)]],
    msgspec.Meta(min_length=1, max_length=MOST_BUCKETS),
]


class _Column(msgspec.Struct, forbid_unknown_fields=True):
    dtype: Literal["int8", "int16", "int32", "int64", "float64"]
    constant: int | None = None
    at: _Count = 0
    checksum: _Count = 0


class _Lost(msgspec.Struct, forbid_unknown_fields=True):
    events: _Count
    bytes: _Count
    truncated: bool
    kinds: dict[str, _Count]


class _Memory(msgspec.Struct, forbid_unknown_fields=True):
    device: int
    shift: Annotated[int, msgspec.Meta(ge=0, lt=63)]
    columns: tuple[_Buckets, _Buckets, _Buckets, _Buckets, _Buckets]


class _Footer(msgspec.Struct, forbid_unknown_fields=True):
    rows: _Count
    columns: dict[str, _Column]
    collectives: dict[str, _Column]
    calls: _Count
    texts: dict[str, tuple[str, ...]]
    size: _Count
    names: tuple[str, ...]
    cats: tuple[str, ...]
    shapes: list[tuple[str, str, str]]
    memory: list[_Memory]
    metadata: dict[str, Any]
    loss: _Lost


_checksum = getattr(fast_zlib, "crc32", zlib.crc32)


class Corrupt(Exception):
    """The file is no packed trace, or not as it was written."""


def pack(trace: Trace, file: BinaryIO) -> None:
    """Writes the trace, a column at a time."""
    file.write(MARK)
    columns = {f.name: _put(getattr(trace, f.name), file) for f in fields(trace) if _is_array(trace, f.name)}
    table = trace.collectives
    footer = {
        "rows": len(trace),
        "columns": columns,
        "collectives": {f.name: _put(getattr(table, f.name), file) for f in fields(table) if _is_array(table, f.name)},
        "calls": len(table.row),
        "texts": {name: getattr(table, name) for name in ("name", "group", "dtype", "group_ranks")},
        "size": trace.size,
        "names": trace.names,
        "cats": trace.cats,
        "shapes": [[part.decode("latin-1") for part in shape] for shape in trace.shapes],
        "memory": [
            {"device": device, "shift": series.shift, "columns": [column.tolist() for column in series.columns]}
            for device, series in trace.memory.items()
        ],
        "metadata": trace.metadata,
        "loss": asdict(trace.loss),
    }
    text = json.dumps(footer).encode()
    file.write(text)
    file.write(_END.pack(len(text), _checksum(text), _MAGIC))


def is_marked(file: BinaryIO) -> bool:
    """Whether the file is one that `pack` wrote, began to write, or wrote before there was a mark at the beginning.

    Raises:
        OSError: the file cannot be read.
    """
    begins = file.read(len(MARK)) == MARK
    file.seek(max(file.seek(0, os.SEEK_END) - len(_MAGIC), 0))
    return begins or file.read() == _MAGIC


def unpack(file: BinaryIO, path: str, most_text_bytes: int = _LARGEST_TEXT, *, is_whole: bool = True) -> Trace:
    """Read the trace of the file at `path`, as `pack` wrote it to `file`.

    Args:
        file: the packed file.
        path: the path to name as the trace's source.
        most_text_bytes: upper bound on the text in that source.
        is_whole: whether it is the result of `read`, and not a share of a trace that is still to be checked.

    Raises:
        Corrupt: the file is not what `pack` writes.
        OSError: the file cannot be read.
    """
    try:
        footer = _footer(file)
        if footer.size > most_text_bytes or max(footer.rows, footer.calls) * _LEAST_EVENT_BYTES > footer.size:
            raise Corrupt("more events than the text has room for")
        trace = _unpacked(file, footer, path)
        _check_ids(trace)
        if is_whole:
            _check_times(trace)
        return trace
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError, struct.error) as error:
        raise Corrupt(str(error)) from error


def _unpacked(file: BinaryIO, footer: _Footer, path: str) -> Trace:
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    columns = _columns(footer.columns, _COLUMNS, footer.rows, mapped)
    table: dict[str, Any] = _columns(footer.collectives, _CALL_COLUMNS, footer.calls, mapped)
    if sorted(footer.texts) != sorted(_CALL_TEXTS) or {len(own) for own in footer.texts.values()} != {footer.calls}:
        raise Corrupt("collectives of different lengths")
    return Trace(
        path=path,
        size=footer.size,
        **columns,
        names=footer.names,
        cats=footer.cats,
        shapes=tuple((a.encode("latin-1"), b.encode("latin-1"), c.encode("latin-1")) for a, b, c in footer.shapes),
        collectives=Collectives(**(table | footer.texts)),
        memory={own.device: _series(own) for own in footer.memory},
        metadata=footer.metadata,
        loss=ReadingLoss(**msgspec.structs.asdict(footer.loss)),
    )


def _series(own: _Memory) -> MemorySeries:
    columns = np.array(own.columns, np.int64)  # of different lengths: a ValueError
    return MemorySeries(own.shift, *columns)


def _columns(about: dict[str, _Column], wanted: Mapping[str, np.dtype[Any]], rows: int, mapped: mmap.mmap) -> Any:
    """The columns by name, each of a type that it can have in a trace."""
    if about.keys() != wanted.keys() or not all(_may_be(own.dtype, name, wanted) for name, own in about.items()):
        raise Corrupt("columns of other names or types")
    return {name: _get(about[name], rows, mapped) for name in wanted}


def _may_be(dtype: str, name: str, wanted: Mapping[str, np.dtype[Any]]) -> bool:
    own = np.dtype(dtype)
    return own == wanted[name] or (name in NARROWED and own.kind == "i" and own.itemsize <= wanted[name].itemsize)


def _check_times(trace: Trace) -> None:
    """Raise Corrupt if there are times or events that reading would have left out."""
    if any(len(ns) and max(-int(ns.min()), int(ns.max())) > _LATEST_NS for ns in (trace.ts, trace.dur)):
        raise Corrupt("a time is out of range")
    if without_impossible_events(trace) is not trace:
        raise Corrupt("events that no trace holds")


def _check_ids(trace: Trace) -> None:
    """An index out of range would fail far from here."""
    table = trace.collectives
    for ids, least, size in (
        (trace.name, 0, len(trace.names)),
        (trace.cat, 0, len(trace.cats)),
        (trace.shape, -1, len(trace.shapes)),
        (table.row, 0, len(trace)),
    ):
        if len(ids) and not (least <= int(ids.min()) and int(ids.max()) < size):
            raise Corrupt("an index is out of range")


def _is_array(owner: Any, name: str) -> bool:
    return isinstance(getattr(owner, name), np.ndarray)


def _put(values: Array, file: BinaryIO) -> dict[str, Any]:
    """Appends a column; what is needed to read it."""
    bits, about = _bits(values), {"dtype": values.dtype.name}
    least, most = (int(bits.min()), int(bits.max())) if len(bits) else (0, 0)
    if least == most:
        return about | {"constant": least}
    file.write(bytes(-file.tell() % _ALIGNED))
    stored = np.ascontiguousarray(values, values.dtype.newbyteorder("<")).data.cast("B")
    at = file.tell()
    file.write(stored)
    return about | {"at": at, "checksum": _checksum(stored)}


def _get(about: _Column, rows: int, mapped: mmap.mmap) -> Array:
    dtype = np.dtype(about.dtype)
    if about.constant is not None:
        return np.broadcast_to(np.array(about.constant, _bits(np.empty(0, dtype)).dtype).view(dtype), rows)
    if about.at % _ALIGNED or len(mapped) < about.at + rows * dtype.itemsize:
        raise Corrupt("a column that does not begin and end where one can")
    column = np.frombuffer(mapped, dtype.newbyteorder("<"), rows, about.at)
    if _checksum(column.data) != about.checksum:
        raise Corrupt("a column is not as it was written")
    return column


def _bits(values: Array) -> Array:
    return values.view(np.int64) if values.dtype == np.float64 else values


def _footer(file: BinaryIO) -> _Footer:
    file.seek(0)
    if file.read(len(MARK)) != MARK:
        raise Corrupt("no packed trace")
    end = file.seek(0, os.SEEK_END) - _END.size
    if end < 0:
        raise Corrupt("too short")
    file.seek(end)
    size, checksum, magic = _END.unpack(file.read(_END.size))
    if magic.rstrip(b"\0") != _MAGIC or size > min(end, _LARGEST_FOOTER):
        raise Corrupt("no packed trace")
    file.seek(end - size)
    text = file.read(size)
    if _checksum(text) != checksum:
        raise Corrupt("the footer is not as it was written")
    return msgspec.convert(json.loads(text), _Footer)
