"""The choice of ranks that record; the others keep step times and facts.

Each rank decides for itself, by numbers that all know.
"""

from __future__ import annotations

MOST_BY_DEFAULT = 16
ALL, ONE_PER_NODE = "all", "one-per-node"


def parsed(text: str) -> tuple[int, ...] | str:
    """The choice that `--ranks` states: numbers of ranks, "all" or "one-per-node".

    Raises:
        ValueError: it is neither.
    """
    if text in (ALL, ONE_PER_NODE):
        return text
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdecimal() and len(word) < 10 for word in words):
        raise ValueError(f"{text!r} is none of: 0,8,16 (numbers of ranks), {ONE_PER_NODE}, {ALL}")
    return tuple(sorted({int(word) for word in words}))


def left_out(rank: int, world_size: int, asked: str | None, local_rank: int | None) -> str:
    """Why this rank records nothing; "" if it records.

    By default up to 16 ranks all record; of more, 16 that are spread evenly over nodes and groups, rank 0 among them.
    If the rank within the node is not known, "one-per-node" takes these.
    """
    chosen = parsed(asked) if asked is not None else None
    if chosen == ALL or world_size <= 1:
        return ""
    if isinstance(chosen, tuple):
        return "" if rank in chosen else f"--ranks {asked}"
    if chosen == ONE_PER_NODE and local_rank is not None:
        return "" if local_rank == 0 else f"--ranks {asked}"
    if rank in spread(world_size):
        return ""
    return f"{MOST_BY_DEFAULT} of {world_size} ranks record, spread evenly: --ranks all records all"


def recorded(world_size: int, asked: str | None, local_ranks: int | None) -> int:
    """Number of ranks that record, with `local_ranks` on each node."""
    chosen = parsed(asked) if asked is not None else None
    if chosen == ALL:
        return world_size
    if isinstance(chosen, tuple):
        return sum(rank < world_size for rank in chosen)
    if chosen == ONE_PER_NODE and local_ranks:
        return -(-world_size // local_ranks)
    return len(spread(world_size))


def spread(world_size: int) -> set[int]:
    """The ranks that record by default."""
    count = min(world_size, MOST_BY_DEFAULT)
    return {number * world_size // count for number in range(count)}
