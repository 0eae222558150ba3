"""Replay the history of a device: the memory in use, its peak, and the contents of the peak.

The allocator records requested bytes, so memory in use is their sum. A bounded history begins in the middle: the memory
in use before it is that at its end, less what it added.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from diagnose.commands.memory.snapshot import ACTIONS, NO_STACK, OOM, Block, History, Snapshot

BEFORE = -1
"""In the place of a stack: what was allocated before the history, by a stack that is not known."""
ALLOC, REQUESTED, COMPLETED, _SEGMENT, RETURNED, _MAPPED, _UNMAPPED = range(len(ACTIONS))
GROWS, SHRINKS = frozenset({_SEGMENT, _MAPPED}), frozenset({RETURNED, _UNMAPPED})


@dataclass(frozen=True)
class Live:
    """Bytes in use, and in how many blocks."""

    bytes: int
    blocks: int


@dataclass(frozen=True)
class Played:
    """The result of replaying a history.

    Attributes:
        begin_bytes: in use before the first row.
        peak_bytes: the most in use.
        peak: the first row with as much in use; -1 is before the first.
        at_peak: memory in use then, by number of its stack, or `BEFORE`; adds up to the peak.
        at_oom: likewise at the last OOM.
        oom: the row of the last OOM; None without one.
        oom_allocated_bytes: in use at that row.
        oom_reserved_bytes: reserved at that row.
        oom_is_last: whether nothing was allocated or freed after it.
    """

    begin_bytes: int
    peak_bytes: int
    peak: int
    at_peak: Mapping[int, Live]
    at_oom: Mapping[int, Live]
    oom: int | None
    oom_allocated_bytes: int
    oom_reserved_bytes: int
    oom_is_last: bool


def played(history: History, blocks: Iterable[Block], reserved_bytes: int) -> Played:
    """Play a history through.

    Args:
        history: of one device.
        blocks: those that are in use at its end.
        reserved_bytes: at its end.
    """
    used = list(blocks)
    frees = frees_by(history)
    in_use = reserved = most = 0
    peak_at, oom, oom_in_use, oom_reserved, after_oom = -1, None, 0, 0, False
    for row, (action, size) in enumerate(zip(history.actions, history.sizes, strict=True)):
        if action == ALLOC:
            in_use += size
            after_oom = True
            if in_use > most:
                most, peak_at = in_use, row
        elif action == frees:
            in_use -= size
            after_oom = True
        elif action in GROWS:
            reserved += size
        elif action in SHRINKS:
            reserved -= size
        elif action == OOM:
            oom, oom_in_use, oom_reserved, after_oom = row, in_use, reserved, False
    begin = max(0, sum(block.requested_bytes for block in used) - in_use)
    return Played(
        begin_bytes=begin,
        peak=peak_at,
        peak_bytes=begin + most,
        at_peak=_in_use_at(peak_at, history, used, frees, begin),
        at_oom={} if oom is None else _in_use_at(oom, history, used, frees, begin),
        oom=oom,
        oom_allocated_bytes=begin + oom_in_use,
        oom_reserved_bytes=max(0, reserved_bytes - reserved + oom_reserved),
        oom_is_last=oom is not None and not after_oom,
    )


def frees_by(history: History) -> int:
    """The action that ends an allocation: the request to free it, or in formats without one its completion."""
    return REQUESTED if REQUESTED in history.actions else COMPLETED


def changes(history: History, more: Collection[int], less: Collection[int]) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """The bytes that each row adds, by the actions that add and that take away.

    They are doubles: exact to 8 PiB, and what is damaged does not wrap around.
    """
    sign_of = np.zeros(len(ACTIONS) + 2)
    sign_of[list(more)], sign_of[list(less)] = 1, -1
    signs: np.ndarray[Any, np.dtype[np.float64]] = sign_of[np.frombuffer(history.actions, np.int8)]
    return signs * np.frombuffer(history.sizes, np.int64)


def with_stacks_of(history: History, used: Iterable[Block]) -> History:
    """The history, with the stacks of blocks for what they hold if it has none: context="state" keeps only theirs."""
    actions, numbers = np.frombuffer(history.actions, np.int8), np.frombuffer(history.stacks, np.int32)
    bare = np.flatnonzero((actions == ALLOC) & (numbers == NO_STACK))
    known = {block.address: block.stack for block in used if block.stack != NO_STACK}
    if not len(bare) or not known:
        return history
    last = {history.addresses[row]: row for row in bare.tolist()}
    stacks = history.stacks[:]
    for address in known.keys() & last.keys():
        stacks[last[address]] = known[address]
    return replace(history, stacks=stacks)


def live_at(until: int, history: History, frees: int) -> tuple[dict[int, tuple[int, int]], int]:
    """Size and stack of what was allocated in the history and is in use after a row, by address; and the bytes freed
    until then that are older than the history.
    """
    live: dict[int, tuple[int, int]] = {}
    freed = 0
    rows = zip(history.actions, history.addresses, history.sizes, history.stacks, strict=True)
    for action, address, size, stack in islice(rows, until + 1):
        if action == ALLOC:
            live[address] = size, stack
        elif action == frees and live.pop(address, None) is None:
            freed += size
    return live, freed


def _in_use_at(until: int, history: History, used: list[Block], frees: int, begin: int) -> dict[int, Live]:
    """Memory in use after a row, by stack; memory from before the history by the blocks that are left at the end."""
    live, freed = live_at(until, history, frees)
    found: dict[int, list[int]] = defaultdict(list)
    for size, stack in live.values():
        found[stack].append(size)
    older, unknown = older_blocks(history, used, begin - freed)
    for block in older:
        found[block.stack].append(block.requested_bytes)
    by_stack = {stack: Live(sum(sizes), len(sizes)) for stack, sizes in found.items()}
    return by_stack | ({BEFORE: Live(unknown, 0)} if unknown > 0 else {})


def older_blocks(history: History, used: Sequence[Block], early: int) -> tuple[list[Block], int]:
    """The blocks in use at the end that are older than the history and have a stack, and the rest of `early` bytes."""
    found = []
    for block in _never_allocated(history, used):
        if block.stack != NO_STACK and block.requested_bytes <= early:
            found.append(block)
            early -= block.requested_bytes
    return found, early


def _never_allocated(history: History, used: Sequence[Block]) -> list[Block]:
    """The blocks in use at the end that are older than the history."""
    known = {block.address: block for block in used}
    if not known:
        return []
    allocated = np.frombuffer(history.actions, np.int8) == ALLOC
    at_end = np.fromiter(known, np.int64)
    came_later = np.isin(at_end, np.frombuffer(history.addresses, np.int64)[allocated])
    return [known[address] for address in at_end[~came_later].tolist()]


def used_blocks(snapshot: Snapshot, device: int) -> list[Block]:
    """The blocks of a device that tensors are in."""
    return [
        block for segment in snapshot.segments if segment.device == device for block in segment.blocks if block.is_used
    ]
