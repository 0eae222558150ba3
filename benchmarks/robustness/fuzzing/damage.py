"""Damage to bytes, whatever they mean: cut, flipped, repeated, shuffled, inserted, and digits that others replace."""

import gzip
import random
from types import ModuleType

from diagnose.trace.source import zstd

_INSERTED = (
    b'"', b"}", b"]", b"{", b"[", b",", b"\\", b"\x00", b"\xff", b"inf", b"]}", b"1e308", b"-", b"9" * 30, b"\x1b[2J",
    b'"ts": ', b'"dur": -1', b'"args": {', b'"ph": "X"', b"[bold]", b"../../", b"ProfilerStep#", b'"correlation": 0',
    b"[" * 2000, b" " * 3000, b"NaN", b'"\\ud800"', b"\n", b"=", b'"""',
)  # fmt: skip
ZSTD: ModuleType | None = zstd


def damaged(seeded: random.Random, text: bytes, most: int = 6) -> bytes:
    """`text` after a few cuts, flips, repetitions, shuffles and insertions."""
    broken = bytearray(text)
    for _ in range(seeded.randint(1, most)):
        if not broken:
            break
        begin = seeded.randrange(len(broken))
        end = min(len(broken), begin + seeded.choice([1, 10, 300, 3000]))
        _damage(seeded, broken, begin, end)
    return bytes(broken)


def _damage(seeded: random.Random, broken: bytearray, begin: int, end: int) -> None:
    what = seeded.randrange(7)
    if what == 0:
        del broken[begin:end]
    elif what == 1:
        broken[begin] ^= 1 << seeded.randrange(8)
    elif what == 2:
        broken[begin:begin] = broken[begin:end]
    elif what == 3:
        broken[begin:end] = bytes(seeded.sample(broken[begin:end], end - begin))
    elif what == 4:
        broken[begin:begin] = seeded.choice(_INSERTED)
    elif what == 5:
        del broken[begin:]
    else:  # a digit for a digit keeps the JSON sound and makes its numbers absurd
        digits = [i for i in range(begin, end) if 48 <= broken[i] <= 57]
        for i in digits[:20]:
            broken[i] = 48 + seeded.randrange(10)


def packed(text: bytes, suffix: str) -> bytes:
    """`text` as a file of this suffix holds it."""
    if suffix.endswith(".gz"):
        return gzip.compress(text, 1, mtime=0)
    if suffix.endswith(".zst") and ZSTD is not None:
        squeezed: bytes = ZSTD.compress(text)
        return squeezed
    return text


def suffixes() -> tuple[str, ...]:
    """The suffixes of the files that can be written here."""
    return (".json", ".json.gz", ".json.zst") if ZSTD is not None else (".json", ".json.gz")
