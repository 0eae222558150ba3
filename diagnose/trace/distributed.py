"""A trace's statements about its job: the `distributedInfo` that torch's profiler writes (torch 1.13 or later)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from diagnose.decoding import MOST_RANKS, all_whole, listed, scalar, table, text, whole

KEY = "distributedInfo"
_RANK = whole(0, MOST_RANKS)
KIND = table(
    {
        "rank": _RANK,
        "world_size": whole(1, MOST_RANKS),
        "backend": text,
        "pg_config": listed(table({"pg_name": scalar, "pg_desc": text, "ranks": all_whole(0, MOST_RANKS)})),
    }
)
_IN_TEXT = rb'"distributedInfo"\s*:\s*\{[^{}]{0,400}?"%b"\s*:\s*(\d{1,9})\b'
_RANK_IN_TEXT, _WORLD_IN_TEXT = (re.compile(_IN_TEXT % name) for name in (b"rank", b"world_size"))


@dataclass(frozen=True)
class ListedGroup:
    """A process group that its rank is a member of: name, description, and ranks of the job in order."""

    name: str
    description: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Distributed:
    """The statements about the job; `rank` and `world_size` are None if they are missing.

    `groups` are the process groups that are listed with their ranks (torch 2.3 or later).
    """

    rank: int | None = None
    world_size: int | None = None
    groups: tuple[ListedGroup, ...] = ()


def distributed_of(metadata: Mapping[str, Any]) -> Distributed | None:
    """Read the top-level keys of a trace; None if they state nothing about the job."""
    info = metadata.get(KEY)
    if not isinstance(info, dict):
        return None
    rank, size, configs = info.get("rank"), info.get("world_size"), info.get("pg_config")
    groups = (_group(config) for config in configs if isinstance(config, dict)) if isinstance(configs, list) else ()
    return Distributed(
        rank=rank if type(rank) is int and 0 <= rank < MOST_RANKS else None,
        world_size=size if type(size) is int else None,
        groups=tuple(group for group in groups if group.ranks),
    )


def _group(config: Mapping[str, Any]) -> ListedGroup:
    ranks = config.get("ranks")
    if not isinstance(ranks, list) or not all(isinstance(rank, int) for rank in ranks):
        ranks = []
    return ListedGroup(str(config.get("pg_name", "")), str(config.get("pg_desc", "")), tuple(sorted(ranks)))


def rank_in(text: bytes) -> int | None:
    """The rank that a piece of a file's text states, for callers that do not read the file."""
    stated = _RANK_IN_TEXT.search(text)
    return int(stated[1]) if stated else None


def world_size_in(text: bytes) -> int | None:
    """The number of ranks that a piece of a file's text states."""
    stated = _WORLD_IN_TEXT.search(text)
    return int(stated[1]) if stated else None
