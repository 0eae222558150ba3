"""Synthetic snapshots, by the small allocator of `tests/torch_allocator.py`: made again, they are the same bytes."""

from __future__ import annotations

import pickle
from pathlib import Path

from torch_allocator import emptied, healthy, out_of_memory

_OF = {"oom": out_of_memory, "healthy": healthy, "empty-cache": emptied}
MADE = tuple(f"dumps/synthetic-memory-{name}.pickle" for name in _OF)


def make(name: str, into: Path) -> list[Path]:
    """Write one snapshot into `into`/`name`."""
    file = into / name
    file.parent.mkdir(parents=True, exist_ok=True)
    of = _OF[name.removeprefix("dumps/synthetic-memory-").removesuffix(".pickle")]
    file.write_bytes(pickle.dumps(of().snapshot(), protocol=4))
    return [file]
