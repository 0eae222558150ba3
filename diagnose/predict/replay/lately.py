"""What many changes have in common is computed once."""

from collections.abc import Callable, Hashable
from typing import TypeVar

_FEW = 4  # each may take as much memory as the items

Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")


def lately(known: dict[Key, Found], key: Key, made: Callable[[], Found]) -> Found:
    """What is known of the key, else what is made of it; what was asked for last is kept for the next."""
    found = known.pop(key) if key in known else made()
    known[key] = found
    if len(known) > _FEW:
        del known[next(iter(known))]
    return found
