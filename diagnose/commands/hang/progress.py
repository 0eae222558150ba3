"""Whether a job moves, by the calls of its ranks between two sets of dumps."""

from collections.abc import Mapping
from dataclasses import dataclass

from diagnose.commands.hang.dump import Dump


@dataclass(frozen=True)
class Progress:
    """Ranks that are in both sets: those that made or ended a call in between, and those that did not."""

    moved: tuple[int, ...]
    stood: tuple[int, ...]


def progress_between(earlier: Mapping[int, Dump], later: Mapping[int, Dump]) -> Progress:
    """The ranks that moved between two sets of dumps, and those that did not."""
    both = [rank for rank in later if rank in earlier]
    moved = tuple(rank for rank in both if _reached(later[rank]) > _reached(earlier[rank]))
    return Progress(moved, tuple(rank for rank in both if rank not in moved))


def _reached(dump: Dump) -> tuple[int, int]:
    """Number of calls that the rank had made, and number of those that had ended."""
    made = dump.lost + len(dump.calls)
    return made, dump.lost + sum(not call.is_open for call in dump.calls)
