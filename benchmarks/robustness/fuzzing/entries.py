"""Entries of the cache whose bytes, or whose described columns, are not as they were written."""

import contextlib
import json
import random
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from diagnose.trace import cache as caching
from diagnose.trace import cache_folder, packing, read

from .damage import damaged
from .tree import mutated

_DESCRIBED = (0, -1, 1, -(2**63), 2**63 - 1, 2**62, "int32", "int64", "float64", "", None, 64, 10**9, 2**1000)


def spoilt(seeded: random.Random, entry: bytes) -> bytes:
    """The entry with other bytes, or with another footer under a right checksum."""
    if seeded.random() < 0.3:
        return damaged(seeded, entry)
    end = packing._END
    size, _, magic = end.unpack(entry[-end.size :])
    columns, text = entry[: -end.size - size], entry[-end.size - size : -end.size]
    footer = _changed(seeded, json.loads(text))
    text = json.dumps(footer).encode("utf-8", "replace")
    return columns + text + end.pack(len(text), zlib.crc32(text), magic)


def _changed(seeded: random.Random, footer: dict[str, Any]) -> Any:
    if seeded.random() < 0.5:
        return mutated(seeded, footer)
    table = seeded.choice([footer["columns"], footer["collectives"]])
    column = table[seeded.choice(list(table))]
    column[seeded.choice(list(column))] = seeded.choice(_DESCRIBED)
    return footer


def entry_of(text: bytes) -> bytes:
    """What the cache keeps of the trace."""
    with tempfile.TemporaryDirectory() as place, everything_kept():
        path = Path(place) / "trace.json"
        path.write_bytes(text)
        kept = caching.Cache(Path(place) / "cache")
        key = kept.key(path)
        assert key is not None
        kept.put(key, path, read(path))
        return next((Path(place) / "cache").glob("*.trace")).read_bytes()


@contextlib.contextmanager
def everything_kept() -> Iterator[None]:
    """Small traces are cached too while this lasts, however little room the disk has."""
    small = mock.patch.multiple(caching, SMALLEST_FILE_BYTES=0, SMALLEST_TEXT_BYTES=0)
    with small, mock.patch.object(cache_folder, "_LEFT_FREE_BYTES", 0):
        yield
