"""Which collective on one rank is the same as on another.

Instances match by process group and Seq where every rank of the group recorded them, else by their order within a
step, group and kind, which is only trusted in steps in which every rank has equally many of each.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diagnose.facts import Unknown
from diagnose.formulas.collectives import transfer_by_duration, waiting_by_duration
from diagnose.ranks.calls import Calls, Group
from diagnose.ranks.digest import RankDigest

Column = NDArray[np.int64]
Key = tuple[bool, int, str, int]  # by Seq, Seq or step, kind, place among those alike
ALONE = Unknown("one rank cannot tell transfer from waiting", "pass the traces of all ranks of the job")
_NONE_RECORDED = Unknown("no collective was recorded in the counted steps", "nothing: the ranks do not communicate")
_UNEQUAL = Unknown(
    "the ranks recorded different numbers of collectives, so their order does not match them",
    "capture the same steps on every rank, with a torch that records Seq (2.12 or later)",
)


@dataclass(frozen=True)
class GroupMatch:
    """The collectives of one process group that all its analysed ranks took part in.

    Attributes:
        group: its name and, where known, its ranks.
        members: positions of its ranks in the job, shape (members,).
        call: for each instance the row of each member's `calls`, shape (instances, members), in order of start on
            the first member.
        start: nanoseconds of each rank's own clock, as `end`, of the same shape.
    """

    group: Group
    members: Column
    call: Column
    start: Column
    end: Column

    @property
    def duration(self) -> Column:
        """Nanoseconds that each rank spent in each collective."""
        return self.end - self.start

    @property
    def transfer(self) -> Column:
        """Shortest duration over the ranks: the last to arrive does not wait. Needs no common clock."""
        return transfer_by_duration(self.duration)

    @property
    def waiting(self) -> Column:
        """Nanoseconds that each rank waited in each collective."""
        return waiting_by_duration(self.duration)

    @property
    def last(self) -> Column:
        """Position among the members of the rank that came last to each collective."""
        return np.asarray(self.duration.argmin(axis=1), np.int64)


Match = tuple[GroupMatch, ...]


def match(ranks: Sequence[RankDigest]) -> Match | Unknown:
    """Joins the collectives of several ranks group by group, or says why none can be joined."""
    if len(ranks) < 2:
        return ALONE
    if not any(len(rank.calls) for rank in ranks):
        return _NONE_RECORDED
    found = [_matched(group, members, ranks) for group, members in _groups(ranks).items() if len(members) > 1]
    return tuple(f for f in found if len(f.call)) or _UNEQUAL


def _groups(ranks: Sequence[RankDigest]) -> dict[Group, dict[int, Column]]:
    """For each process group the positions of its ranks, each with its calls there."""
    found: dict[Group, dict[int, Column]] = {}
    for position, rank in enumerate(ranks):
        for number, group in enumerate(rank.calls.groups):
            found.setdefault(group, {})[position] = np.flatnonzero(rank.calls.group == number)
    return found


def _matched(group: Group, rows: dict[int, Column], ranks: Sequence[RankDigest]) -> GroupMatch:
    members = list(rows)
    by_seq = all((ranks[p].calls.seq[own] >= 0).all() for p, own in rows.items())
    keys = [_keys(ranks[p].calls, own, by_seq) for p, own in rows.items()]
    shared = _trusted([set(k) for k in keys])
    call = np.array([[k[key] for k in keys] for key in keys[0] if key in shared], np.int64).reshape(-1, len(members))
    calls = [ranks[p].calls for p in members]
    return GroupMatch(
        group=group,
        members=np.array(members, np.int64),
        call=call,
        start=np.stack([c.start[call[:, m]] for m, c in enumerate(calls)], axis=1),
        end=np.stack([c.end[call[:, m]] for m, c in enumerate(calls)], axis=1),
    )


def _keys(calls: Calls, rows: Column, by_seq: bool) -> dict[Key, int]:
    """The rank's calls by what they are known by, in order of start."""
    seen: Counter[tuple[int, str]] = Counter()
    found: dict[Key, int] = {}
    numbers = calls.seq if by_seq else calls.step
    for row, number, kind in zip(rows.tolist(), numbers[rows].tolist(), calls.kind[rows].tolist(), strict=True):
        place = (number, calls.kinds[kind])
        found[(by_seq, *place, seen[place])] = row
        seen[place] += 1
    return found


def _trusted(ranks: list[set[Key]]) -> set[Key]:
    """Keys that every rank has; by order only those of steps in which all ranks have the same keys."""
    shared, every = set.intersection(*ranks), set.union(*ranks)
    broken = {key[1] for key in every - shared if not key[0]}
    return {key for key in shared if key[0] or key[1] not in broken}
