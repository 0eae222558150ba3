"""A four-entry LRU cache for results that many changes share."""

from collections.abc import Callable, Hashable
from typing import TypeVar

_FEW = 4  # each may take as much memory as the items

Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")


def lru_cached(known: dict[Key, Found], key: Key, made: Callable[[], Found]) -> Found:
    """Return the cached value of the key, else compute and cache it; evicts the least recently used of five."""
    found = known.pop(key) if key in known else made()
    known[key] = found
    if len(known) > _FEW:
        del known[next(iter(known))]
    return found
