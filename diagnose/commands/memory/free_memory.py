"""How free memory lies in the segments that are reserved, when the snapshot was taken and at an earlier row."""

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from diagnose.commands.memory.replay import ALLOC, COMPLETED, GROWS, REQUESTED, RETURNED, SHRINKS
from diagnose.commands.memory.snapshot import Block, History, Segment

NO_ADDRESS = 1 << 62
ROUNDED_TO = 512  # bytes: kMinBlockSize of the allocator
Numbers = np.ndarray[Any, np.dtype[np.int64]]


def free_pieces(segments: Sequence[Segment]) -> tuple[list[int], list[int]]:
    """The sizes of free blocks in segments that are also in use, and of segments that are wholly free."""
    split: list[int] = []
    cached: list[int] = []
    for segment in segments:
        wholly = all(block.is_free for block in segment.blocks)
        (cached if wholly else split).extend(_joined(segment.blocks))
    return split, cached


def _joined(blocks: Sequence[Block]) -> Iterator[int]:
    """Sizes of the free pieces: adjacent free blocks are one; the allocator joins them unless a segment can grow."""
    for is_free, run in groupby(blocks, key=lambda block: block.is_free):
        if is_free:
            yield sum(block.size_bytes for block in run)


def free_pieces_after(row: int, history: History, segments: Sequence[Segment]) -> list[int] | None:
    """The sizes of the free pieces after a row of the history: as memory lies at its end, less what came later.

    What was reserved or used then is what is at the end, without what later rows added and with what they took away: a
    sum over each address. None if a format does not say where its segments lie, or they lie where no memory is.
    """
    if any(segment.address < 0 or _end(segment) >= NO_ADDRESS for segment in segments):
        return None
    actions = np.frombuffer(history.actions, np.int8)[row + 1 :]
    begins = np.frombuffer(history.addresses, np.int64)[row + 1 :]
    sizes = np.frombuffer(history.sizes, np.int64)[row + 1 :]
    ends_use = COMPLETED if COMPLETED in history.actions else REQUESTED
    lies = _at_end(segments)
    covers = {"reserved": [lies[0]], "used": [lies[1]]}
    for name, kinds, sign in (
        ("reserved", GROWS, -1), ("reserved", SHRINKS, 1), ("used", {ALLOC}, -1), ("used", {ends_use}, 1),
    ):  # fmt: skip
        which = np.isin(actions, list(kinds))
        rounded = sizes[which] if name == "reserved" else -(-sizes[which] // ROUNDED_TO) * ROUNDED_TO
        covers[name].append(_edges(begins[which], rounded, sign))
    begin_apart = {segment.address for segment in segments if not segment.is_expandable}
    begin_apart |= set(begins[actions == RETURNED].tolist())
    return _holes(np.concatenate(covers["reserved"]), np.concatenate(covers["used"]), begin_apart)


def _end(segment: Segment) -> int:
    return segment.address + max(segment.total_bytes, sum(block.size_bytes for block in segment.blocks))


def _at_end(segments: Sequence[Segment]) -> tuple[Numbers, Numbers]:
    """The edges of the segments, and of the blocks that are not free."""
    used = [block for segment in segments for block in _placed(segment) if not block[2]]
    return (
        _edges(_numbers(segment.address for segment in segments), _numbers(s.total_bytes for s in segments), 1),
        _edges(_numbers(address for address, _, _ in used), _numbers(size for _, size, _ in used), 1),
    )


def _placed(segment: Segment) -> Iterator[tuple[int, int, bool]]:
    """The address, size and freedom of each block: they lie one behind the other."""
    address = segment.address
    for block in segment.blocks:
        yield address, block.size_bytes, block.is_free
        address += block.size_bytes


def _numbers(values: Any) -> Numbers:
    return np.fromiter(values, np.int64)


def _edges(begins: Numbers, sizes: Numbers, sign: int) -> Numbers:
    """Rows of an address and the change of what covers it from there on."""
    up, down = np.full(len(begins), sign), np.full(len(begins), -sign)
    return np.concatenate([np.stack([begins, up], 1), np.stack([begins + sizes, down], 1)])


def _holes(reserved: Numbers, used: Numbers, begin_apart: Collection[int]) -> list[int]:
    """The sizes of what is reserved and not used; a piece ends where a segment begins that cannot be joined."""
    edges = np.concatenate([np.insert(reserved, 2, 0, 1), np.insert(used, 1, 0, 1)])
    edges = edges[edges[:, 0].argsort(kind="stable")]
    places, first = np.unique(edges[:, 0], return_index=True)
    covers = np.add.reduceat(edges[:, 1:], first, 0).cumsum(0) if len(edges) else edges[:, 1:]
    found: list[int] = []
    is_open = False
    for at, (is_reserved, is_used) in enumerate(covers[:-1].tolist()):
        is_hole = is_reserved > 0 >= is_used
        size = int(places[at + 1] - places[at])
        if is_hole and is_open and int(places[at]) not in begin_apart:
            found[-1] += size
        elif is_hole:
            found.append(size)
        is_open = is_hole
    return found
