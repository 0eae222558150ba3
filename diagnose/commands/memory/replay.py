"""Replay the history of a device: the memory in use, its peak, and the contents of the peak.

The allocator records requested bytes, so memory in use is their sum. A bounded history begins in the middle: the memory
in use before it is that at its end, less what it added.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

import numpy as np

from diagnose.commands.memory.snapshot import ACTIONS, NO_STACK, OOM, Block, History, Snapshot

BEFORE = -1
"""In the place of a stack: what was allocated before the history, by a stack that is not known."""
_ALLOC, _REQUESTED, _COMPLETED, _SEGMENT, _RETURNED, _MAPPED, _UNMAPPED = range(len(ACTIONS))
_GROWS, _SHRINKS = {_SEGMENT, _MAPPED}, {_RETURNED, _UNMAPPED}


@dataclass(frozen=True)
class Live:
    """Bytes in use, and in how many blocks."""

    bytes: int
    blocks: int


@dataclass(frozen=True)
class Played:
    """The result of replaying a history.

    Attributes:
        peak_bytes: the most in use.
        at_peak: memory in use then, by number of its stack, or `BEFORE`; adds up to the peak.
        at_oom: likewise at the last OOM.
        oom: the row of the last OOM; None without one.
        oom_allocated_bytes: in use at that row.
        oom_reserved_bytes: reserved at that row.
        oom_is_last: whether nothing was allocated or freed after it.
        freed_by: the stack of each time that segments were given back.
    """

    peak_bytes: int
    at_peak: Mapping[int, Live]
    at_oom: Mapping[int, Live]
    oom: int | None
    oom_allocated_bytes: int
    oom_reserved_bytes: int
    oom_is_last: bool
    freed_by: tuple[int, ...]


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
    freed_by: list[int] = []
    previous = -1
    for row, (action, size) in enumerate(zip(history.actions, history.sizes, strict=True)):
        if action == _ALLOC:
            in_use += size
            after_oom = True
            if in_use > most:
                most, peak_at = in_use, row
        elif action == frees:
            in_use -= size
            after_oom = True
        elif action in _GROWS:
            reserved += size
        elif action in _SHRINKS:
            reserved -= size
            if action == _RETURNED and previous != _RETURNED:
                freed_by.append(history.stacks[row])
        elif action == OOM:
            oom, oom_in_use, oom_reserved, after_oom = row, in_use, reserved, False
        previous = action
    begin = max(0, sum(block.requested_bytes for block in used) - in_use)
    return Played(
        peak_bytes=begin + most,
        at_peak=_in_use_at(peak_at, history, used, frees, begin),
        at_oom={} if oom is None else _in_use_at(oom, history, used, frees, begin),
        oom=oom,
        oom_allocated_bytes=begin + oom_in_use,
        oom_reserved_bytes=max(0, reserved_bytes - reserved + oom_reserved),
        oom_is_last=oom is not None and not after_oom,
        freed_by=tuple(freed_by),
    )


def frees_by(history: History) -> int:
    """The action that ends an allocation: the request to free it, or in formats without one its completion."""
    return _REQUESTED if _REQUESTED in history.actions else _COMPLETED


def _in_use_at(until: int, history: History, used: list[Block], frees: int, begin: int) -> dict[int, Live]:
    """Memory in use after a row, by stack; memory from before the history by the blocks that are left at the end."""
    live: dict[int, tuple[int, int]] = {}
    early = begin
    rows = zip(history.actions, history.addresses, history.sizes, history.stacks, strict=True)
    for action, address, size, stack in islice(rows, until + 1):
        if action == _ALLOC:
            live[address] = size, stack
        elif action == frees and live.pop(address, None) is None:
            early -= size
    found: dict[int, list[int]] = defaultdict(list)
    for size, stack in live.values():
        found[stack].append(size)
    for block in _never_allocated(history, used):
        if block.stack != NO_STACK and block.requested_bytes <= early:
            found[block.stack].append(block.requested_bytes)
            early -= block.requested_bytes
    by_stack = {stack: Live(sum(sizes), len(sizes)) for stack, sizes in found.items()}
    return by_stack | ({BEFORE: Live(early, 0)} if early > 0 else {})


def _never_allocated(history: History, used: list[Block]) -> list[Block]:
    """The blocks in use at the end that are older than the history."""
    known = {block.address: block for block in used}
    if not known:
        return []
    allocated = np.frombuffer(history.actions, np.int8) == _ALLOC
    at_end = np.fromiter(known, np.int64)
    came_later = np.isin(at_end, np.frombuffer(history.addresses, np.int64)[allocated])
    return [known[address] for address in at_end[~came_later].tolist()]


def used_blocks(snapshot: Snapshot, device: int) -> list[Block]:
    """The blocks of a device that tensors are in."""
    return [
        block for segment in snapshot.segments if segment.device == device for block in segment.blocks if block.is_used
    ]
