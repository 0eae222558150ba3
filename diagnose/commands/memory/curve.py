"""The memory of a device over its recorded history in few points: in use, by what it was for, and reserved."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import get_args

import numpy as np

from diagnose.commands.memory.answer import Category, CategoryUsage, Usage
from diagnose.commands.memory.replay import ALLOC, GROWS, SHRINKS, changes, frees_by, older_blocks
from diagnose.commands.memory.snapshot import Block, History

MOST_POINTS = 240
_CATEGORIES: tuple[Category, ...] = get_args(Category)


def usage(
    history: History, used: Sequence[Block], allocated_bytes: int, reserved_bytes: int, category_of: Sequence[Category]
) -> Usage:
    """The maximum of either in each of at most `MOST_POINTS` parts of the history.

    Args:
        history: of one device.
        used: the blocks in use at its end.
        allocated_bytes: in use at its end.
        reserved_bytes: likewise.
        category_of: by number of a stack.
    """
    each = -(-len(history) // MOST_POINTS) if len(history) else 1
    added = changes(history, {ALLOC}, {frees_by(history)})
    in_use = list(_most(added, allocated_bytes, each))
    points = [row for _, row in in_use]
    return Usage(
        actions_per_point=each,
        border_us=_borders(history, each),
        allocated_bytes=tuple(bytes_ for bytes_, _ in in_use),
        reserved_bytes=tuple(bytes_ for bytes_, _ in _most(changes(history, GROWS, SHRINKS), reserved_bytes, each)),
        by_category=_stacked(history, used, int(max(0, allocated_bytes - added.sum())), points, category_of),
    )


def _borders(history: History, each: int) -> tuple[int, ...]:
    """When each part begins, from the first action on, and when the last one ends, whose last action is taken to be as
    long as the mean one; empty if actions have no times in order.
    """
    times = np.frombuffer(history.times, np.int64)
    if len(times) != len(history) or not len(times) or times[0] < 0 or (np.diff(times) < 0).any():
        return ()
    since = times - times[0]
    return (*since[::each].tolist(), int(since[-1]) + -(-int(since[-1]) // len(since))) if since[-1] else ()


def _most(
    added: "np.ndarray[tuple[int], np.dtype[np.float64]]", end_bytes: int, each: int
) -> Iterator[tuple[int, int]]:
    """The maximum in each part, and its row. What there is before the first row is that at the end, less what came."""
    parts = [slice(begin, begin + each) for begin in range(0, len(added), each)]
    now = float(max(0, end_bytes - sum(int(added[part].sum()) for part in parts)))
    for part in parts:
        over = now + np.cumsum(added[part])
        at = int(over.argmax())
        if over[at] > now:
            yield int(max(0.0, over[at])), part.start + at
        else:
            yield int(max(0.0, now)), part.start - 1
        now = float(over[-1])


def _stacked(
    history: History, used: Sequence[Block], begin: int, points: Sequence[int], category_of: Sequence[Category]
) -> tuple[CategoryUsage, ...]:
    """Memory in use after each of the rows, by category; -1 is before the first row."""
    older, unknown = older_blocks(history, used, begin)
    now: Counter[Category] = Counter({"before the history": unknown})
    for block in older:
        now[category_of[block.stack]] += block.requested_bytes
    told = list(_after(history, now, points, category_of))
    rows = [CategoryUsage(category=name, bytes=tuple(max(0, at[name]) for at in told)) for name in _CATEGORIES]
    return tuple(row for row in rows if any(row.bytes))


def _after(
    history: History, now: "Counter[Category]", points: Sequence[int], category_of: Sequence[Category]
) -> "Iterator[Counter[Category]]":
    """`now`, played on to each of the rows, which do not decrease."""
    live: dict[int, tuple[int, Category]] = {}
    frees, at = frees_by(history), 0
    for row in points:
        for i in range(at, row + 1):
            if history.actions[i] == ALLOC:
                live[history.addresses[i]] = held = history.sizes[i], category_of[history.stacks[i]]
                now[held[1]] += held[0]
            elif history.actions[i] == frees:
                size, name = live.pop(history.addresses[i], (history.sizes[i], "before the history"))
                now[name] -= size
        at = max(at, row + 1)
        yield now.copy()
