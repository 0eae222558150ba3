"""A trace as a file of its own: every column in as few bytes as its values need, checked when it is read.

Columns stand one behind the other, then a JSON footer that describes them, then the footer's length and checksum. An
integer column is stored as differences from its least value, in the narrowest unsigned type that holds them; one that
is constant takes no bytes. Nothing in the file is code: it is numbers and JSON.
"""

import json
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import asdict, fields
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from diagnose.trace.columns import Collectives, Loss, Trace
from diagnose.trace.source import fast_zlib

_END = struct.Struct("<QI12s")
_MAGIC = b"diagnose/1\r\n"
_STORED = tuple(np.dtype(f"<u{width}") for width in (1, 2, 4, 8))
_DTYPES = {name: np.dtype(name) for name in ("int32", "int64", "float64")}
_ROWS_AT_ONCE = 1 << 18
_LARGEST_FOOTER = 1 << 30

Array = NDArray[Any]
_checksum = getattr(fast_zlib, "crc32", zlib.crc32)


class Corrupt(Exception):
    """The file is no packed trace, or not as it was written."""


def pack(trace: Trace, file: BinaryIO) -> None:
    """Writes the trace, a slice of a column at a time."""
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
        "memory_reserved": list(trace.memory_reserved.items()),
        "metadata": trace.metadata,
        "loss": asdict(trace.loss),
    }
    text = json.dumps(footer).encode()
    file.write(text)
    file.write(_END.pack(len(text), _checksum(text), _MAGIC))


def unpack(file: BinaryIO, path: str) -> Trace:
    """The trace of the file at `path` as `pack` wrote it to `file`.

    Raises:
        Corrupt: the file is not what `pack` writes.
        OSError: the file cannot be read.
    """
    try:
        return _unpacked(file, _footer(file), path)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError, struct.error) as error:
        raise Corrupt(str(error)) from error


def _unpacked(file: BinaryIO, footer: dict[str, Any], path: str) -> Trace:
    columns: dict[str, Any] = {name: _get(about, footer["rows"], file) for name, about in footer["columns"].items()}
    table: dict[str, Any] = {name: _get(about, footer["calls"], file) for name, about in footer["collectives"].items()}
    table |= {name: tuple(texts) for name, texts in footer["texts"].items()}
    trace = Trace(
        path=path,
        size=footer["size"],
        **columns,
        names=tuple(footer["names"]),
        cats=tuple(footer["cats"]),
        shapes=tuple((a.encode("latin-1"), b.encode("latin-1"), c.encode("latin-1")) for a, b, c in footer["shapes"]),
        collectives=Collectives(**table),
        memory_reserved=dict(footer["memory_reserved"]),
        metadata=dict(footer["metadata"]),
        loss=Loss(**footer["loss"]),
    )
    _check_ids(trace)
    return trace


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
    if {len(table.row)} != {len(getattr(table, f.name)) for f in fields(table)}:
        raise Corrupt("collectives of different lengths")


def _is_array(owner: Any, name: str) -> bool:
    return isinstance(getattr(owner, name), np.ndarray)


def _put(values: Array, file: BinaryIO) -> dict[str, Any]:
    """Appends a column; what is needed to read it."""
    bits = values.view(np.int64) if values.dtype == np.float64 else values
    least, most = (int(bits.min()), int(bits.max())) if len(bits) else (0, 0)
    about: dict[str, Any] = {"dtype": values.dtype.name, "least": least, "stored": ""}
    if least == most:
        return about
    stored = next(dtype for dtype in _STORED if most - least <= np.iinfo(dtype).max)
    at, checksum = file.tell(), 0
    for piece in _slices(len(bits)):
        shifted = bits[piece].astype(np.int64).view(np.uint64) - _modular(least)
        raw = shifted.astype(stored).tobytes()
        checksum = _checksum(raw, checksum)
        file.write(raw)
    return about | {"stored": stored.str, "at": at, "checksum": checksum}


def _get(about: dict[str, Any], rows: int, file: BinaryIO) -> Array:
    dtype, least = _DTYPES[about["dtype"]], int(about["least"])
    bits = np.dtype(np.int64) if dtype.kind == "f" else dtype
    if not about["stored"]:
        return np.full(rows, least, bits).view(dtype)
    stored = next(each for each in _STORED if each.str == about["stored"])
    if file.seek(0, os.SEEK_END) < about["at"] + rows * stored.itemsize:
        raise Corrupt("shorter than it says")
    file.seek(about["at"])
    column, checksum = np.empty(rows, bits), 0
    for piece in _slices(rows):
        raw = file.read((piece.stop - piece.start) * stored.itemsize)
        checksum = _checksum(raw, checksum)
        wide = np.frombuffer(raw, stored).astype(np.uint64)
        column[piece] = (wide + _modular(least)).view(np.int64)
    if checksum != about["checksum"]:
        raise Corrupt("a column is not as it was written")
    return column.view(dtype)


def _footer(file: BinaryIO) -> dict[str, Any]:
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
    footer: dict[str, Any] = json.loads(text)
    return footer


def _slices(rows: int) -> Iterator[slice]:
    return (slice(at, min(at + _ROWS_AT_ONCE, rows)) for at in range(0, rows, _ROWS_AT_ONCE))


def _modular(value: int) -> np.uint64:
    return np.uint64(value & 0xFFFF_FFFF_FFFF_FFFF)
