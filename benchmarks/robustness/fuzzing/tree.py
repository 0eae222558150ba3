"""Mutations of what JSON and TOML hold: fields dropped, types swapped, magnitudes, duplicates, swaps, wrong keys.

A field is chosen by its key first, so that one that stands once is met as often as one in every event.
"""

import copy
import random
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from .values import bent, odd

Holder = dict[str, Any] | list[Any]
Site = tuple[Holder, Any]  # where a value stands, and under which key or index


def sites(tree: Any) -> dict[str, list[Site]]:
    """Every value below the root, by the keys on the way to it; the items of a list share one name."""
    found: dict[str, list[Site]] = defaultdict(list)
    for path, holder, key in _walk(tree, ""):
        found[path].append((holder, key))
    return found


def _walk(tree: Any, path: str) -> Iterator[tuple[str, Holder, Any]]:
    if isinstance(tree, dict):
        kind = f"<{tree['cat']}>" if isinstance(tree.get("cat"), str) else ""
        for key, value in tree.items():
            here = f"{path}{kind}.{key}"
            yield here, tree, key
            yield from _walk(value, here)
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield f"{path}[]", tree, index
            yield from _walk(value, f"{path}[]")


def mutated(seeded: random.Random, tree: Any, most: int = 3) -> Any:
    """A copy of `tree` after one to `most` mutations."""
    found = copy.deepcopy(tree)
    for _ in range(seeded.randint(1, most)):
        mutate(seeded, found)
    return found


def mutate(seeded: random.Random, tree: Any) -> None:
    """One mutation of one field: of one that holds it, of a few, or of all."""
    found = sites(tree)
    if not found:
        return
    places = found[seeded.choice(list(found))]
    many = seeded.choice([1, 1, 1, 3, len(places)])
    chosen = seeded.sample(places, min(many, len(places)))
    way = seeded.choice(_WAYS)
    value = odd(seeded)
    for holder, key in sorted(chosen, key=_last_first):
        if key in holder if isinstance(holder, dict) else key < len(holder):
            way(seeded, holder, key, value)


def _last_first(site: Site) -> int:
    """Items are taken from the end, so that what is dropped moves none that is still to come."""
    return -site[1] if isinstance(site[1], int) else 0


def _drop(seeded: random.Random, holder: Any, key: Any, value: Any) -> None:
    del holder[key]


def _replace(seeded: random.Random, holder: Any, key: Any, value: Any) -> None:
    holder[key] = copy.deepcopy(value)


def _bend(seeded: random.Random, holder: Any, key: Any, value: Any) -> None:
    holder[key] = bent(seeded, holder[key])


def _swap(seeded: random.Random, holder: Any, key: Any, value: Any) -> None:
    other = seeded.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    holder[key], holder[other] = holder[other], holder[key]


def _repeat(seeded: random.Random, holder: Any, key: Any, value: Any) -> None:
    if isinstance(holder, list):
        holder[key:key] = [copy.deepcopy(holder[key]) for _ in range(seeded.choice([1, 2, 30]))]
    else:
        holder[f"{key}2"] = holder[key]


def _rename(seeded: random.Random, holder: Any, key: Any, value: Any) -> None:
    if isinstance(holder, dict):
        held = holder.pop(key)
        holder[seeded.choice([key.upper(), key.strip("_") + "_", "", f"{key}.{key}", *list(holder)[:3]])] = held
    else:
        holder[key] = [holder[key]]


_WAYS = (_drop, _drop, _replace, _replace, _replace, _bend, _bend, _bend, _swap, _repeat, _rename)
