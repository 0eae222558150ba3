"""Entries of the cache whose bytes, or whose described columns, are not as they were written."""

from __future__ import annotations

import json
import random
import zlib
from typing import Any

from diagnose.trace import packing

from .damage import damaged
from .tree import mutated


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
    column[seeded.choice(list(column))] = seeded.choice(
        [
            0,
            -1,
            1,
            -(2**63),
            2**63 - 1,
            2**62,
            "int32",
            "int64",
            "float64",
            "<u1",
            "<u8",
            "",
            10**9,
            4_607_182_418_800_017_408,
        ]
    )
    return footer
