"""The shards of a stream, of which each loader worker reads some of its own."""

from __future__ import annotations

from typing import Any

from ..introspection import is_stream, own_attribute, unseen, untouched

_WRAPPERS = 4  # around a stream, as for its part of a rank


def shards(loader: Any) -> int | None:
    """How many shards a stream of the library datasets has, as many as workers can read it; None of other data."""
    data = own_attribute(loader, "dataset")
    for _ in range(_WRAPPERS):
        if is_stream(data):
            return _count(data)
        data = own_attribute(data, "dataset")
    return None


def _count(stream: Any) -> int | None:
    with untouched(), unseen():
        count = getattr(stream, "num_shards", None) or getattr(stream, "n_shards", None)
    return count if type(count) is int and count > 0 else None
