"""The giver of segments back to the driver: the job, by empty_cache, or the allocator itself, to go on.

A stack shows it, if one was recorded. Without one the order does: an allocation that has failed gives segments back and
then reserves one at once, or ends in an OOM, and no segment that it gives back would have been large enough for it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from diagnose.commands.memory.replay import ALLOC, COMPLETED, GROWS, REQUESTED, SHRINKS, changes
from diagnose.commands.memory.snapshot import NO_STACK, OOM, OTHER, History
from diagnose.commands.memory.stacks import empties
from diagnose.trace.stacks import Frame

SMALL = 1 << 20  # kSmallSize of the allocator: requests up to it lie in segments of their own
SMALL_SEGMENT = 2 * SMALL  # kSmallBuffer
By = Literal["job", "allocator", "unknown"]


@dataclass(frozen=True)
class GivenBack:
    """Number of times that segments were given back, by whom; `stacks` are those of the job's own calls."""

    by: Mapping[By, int]
    stacks: Mapping[int, int]

    def known(self, who: By) -> int | None:
        """The times of one; None if there are others of which it is not known who made them, and none of its own."""
        count = self.by.get(who, 0)
        return None if not count and self.by.get("unknown") else count


@dataclass(frozen=True)
class _Turn:
    """Rows that give segments back one after the other, and the row that follows; None at the end of the history."""

    rows: Sequence[int]
    following: int | None


def given_back(history: History, stacks: Sequence[Sequence[Frame]]) -> GivenBack:
    """Attribute each time that segments were given back."""
    told = _Told(history, stacks)
    by: Counter[By] = Counter()
    asked: Counter[int] = Counter()
    for turn in _turns(history):
        who = told.by_whom(turn)
        by[who] += 1
        if who == "job":
            asked[history.stacks[turn.rows[0]]] += 1
    return GivenBack(by, asked)


def _turns(history: History) -> Iterator[_Turn]:
    """The times that segments were given back; what waited for the device may complete in between."""
    actions = np.frombuffer(history.actions, np.int8)
    telling = np.flatnonzero((actions != COMPLETED) & (actions != OTHER))
    shrinks = np.isin(actions[telling], list(SHRINKS))
    edges = np.flatnonzero(np.diff(np.concatenate(([False], shrinks, [False])).astype(np.int8)))
    for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        yield _Turn(telling[begin:end].tolist(), int(telling[end]) if end < len(telling) else None)


class _Told:
    """Signs in the stacks and sizes of a history of who gave back in a turn."""

    def __init__(self, history: History, stacks: Sequence[Sequence[Frame]]) -> None:
        self._history = history
        self._empties = {number for number in set(history.stacks) if empties(stacks[number])}
        actions, numbers = np.frombuffer(history.actions, np.int8), np.frombuffer(history.stacks, np.int32)
        of_frees, of_allocs = (set(numbers[actions == kind].tolist()) for kind in (REQUESTED, ALLOC))
        self._frees_have_their_own = bool(of_frees - of_allocs - {NO_STACK})  # context="all", torch's default
        self._grows_at_all = bool(np.isin(actions, list(GROWS)).any())
        self._reserved = np.cumsum(changes(history, GROWS, SHRINKS))

    def by_whom(self, turn: _Turn) -> By:
        history, first = self._history, turn.rows[0]
        stack, following = history.stacks[first], turn.following
        if stack in self._empties:
            return "job"
        if following is not None and history.actions[following] == OOM:
            return "allocator"
        if not self._grows_at_all:
            return "unknown"
        if following is None or history.actions[following] not in GROWS:
            return "job"  # who gives back to go on goes on at once
        if stack != NO_STACK and self._frees_have_their_own:
            return "allocator"
        if stack != NO_STACK and stack != history.stacks[following]:
            return "job"  # the stack is that of the segment's own allocation: context="alloc"
        if self._had_room(turn, following):
            return "job"
        return "unknown" if stack == NO_STACK else "allocator"

    def _had_room(self, turn: _Turn, following: int) -> bool:
        """Whether the request that follows would have been served without giving anything back.

        It would fit into a segment that was given back, or the driver once gave as much as it would have had to.
        """
        history = self._history
        request = next((row for row in range(following, len(history)) if history.actions[row] == ALLOC), None)
        if request is None:
            return False
        size, given = history.sizes[request], [history.sizes[row] for row in turn.rows]
        if size <= SMALL:
            fits = SMALL_SEGMENT in given
        else:
            fits = size <= max(part for part in (*given, 0) if part != SMALL_SEGMENT)
        grown = self._reserved[request] - self._reserved[turn.rows[-1]]
        return fits or bool(self._reserved[turn.rows[0]] + given[0] + grown <= self._reserved.max())
