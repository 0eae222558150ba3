"""The calls of one process group on all its ranks, side by side by what they are known by."""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from diagnose.arrays import Ints, Mask
from diagnose.ranks.collectives.kinds import is_unknown
from diagnose.ranks.collectives.process_groups import ProcessGroup
from diagnose.ranks.digest import RankDigest

ABSENT = -1


class GroupCalls(msgspec.Struct, frozen=True):
    """Collectives of one process group, those of the first member first, each member's in order of start.

    Attributes:
        group: its name and, if known, its ranks.
        members: positions of its ranks in the job, shape (members,).
        member: index into `members` for each call; columns of equal length from here on.
        call: row of that member's `calls`.
        step: number of the step.
        seq: number in the process group, ABSENT if not recorded.
        kind: index of `kinds`.
        bytes: bytes of the message, ABSENT if not recorded.
    """

    group: ProcessGroup
    members: Ints
    member: Ints
    call: Ints
    step: Ints
    seq: Ints
    kind: Ints
    bytes: Ints
    kinds: tuple[str, ...]

    @property
    def has_seq(self) -> bool:
        """Whether every call carries its number in the group, and these numbers distinguish most calls."""
        distinct = len(np.unique(code_of(self.member, self.seq)))
        return bool((self.seq >= 0).all()) and 2 * distinct > len(self.seq)

    @property
    def has_kinds(self) -> bool:
        """Whether the kind of every call is known."""
        return not any(is_unknown(kind) for kind in self.kinds)


def gathered(group: ProcessGroup, rows: Mapping[int, Ints], ranks: Sequence[RankDigest]) -> GroupCalls:
    """The calls at the given rows of each rank, by its position in the job."""
    calls = [ranks[p].calls for p in rows]
    names = tuple(dict.fromkeys(kind for rank_calls in calls for kind in rank_calls.kinds))
    number = {name: i for i, name in enumerate(names)}
    kinds = [
        np.array([number[k] for k in rank_calls.kinds], np.int64)[rank_calls.kind[at]]
        for rank_calls, at in zip(calls, rows.values(), strict=True)
    ]
    return GroupCalls(
        group=group,
        members=np.array(list(rows), np.int64),
        member=np.repeat(np.arange(len(rows)), [len(at) for at in rows.values()]),
        call=np.concatenate(list(rows.values())),
        step=_joined([rank_calls.step for rank_calls in calls], rows),
        seq=_joined([rank_calls.seq for rank_calls in calls], rows),
        kind=np.concatenate(kinds),
        bytes=_joined([rank_calls.bytes for rank_calls in calls], rows),
        kinds=names,
    )


def _joined(columns: Sequence[Ints], rows: Mapping[int, Ints]) -> Ints:
    return np.concatenate([column[at] for column, at in zip(columns, rows.values(), strict=True)])


class AlignedCalls(msgspec.Struct, frozen=True):
    """The members' calls at each place of a group's collectives.

    Attributes:
        number: the Seq or the step of each place, shape (places,).
        at: index of the group's calls by place and member, shape (places, members), ABSENT if a member has none.
    """

    number: Ints
    at: Ints

    @property
    def full(self) -> Mask:
        """The places at which every member ran a collective."""
        return np.asarray((self.at >= 0).all(axis=1))


def aligned_calls(calls: GroupCalls, *labels: Ints) -> AlignedCalls:
    """The calls side by side: those with equal labels, the first of which is the number, by their order among them.

    Sorted by member and label, calls with one label stand next to each other in order of start, so the distance from
    the first of them is the order. Label and order together name a row of the table, the member its column.
    """
    alike = code_of(*labels)
    order = np.lexsort((alike, calls.member))
    member, ordered = calls.member[order], alike[order]
    first = np.flatnonzero((np.diff(member, prepend=ABSENT) != 0) | (np.diff(ordered, prepend=ABSENT) != 0))
    place = np.arange(len(order)) - np.repeat(first, np.diff(np.append(first, len(order))))
    _, one, index = np.unique(code_of(ordered, place), return_index=True, return_inverse=True)
    at = np.full((len(one), len(calls.members)), ABSENT, np.int64)
    at[index, member] = order
    return AlignedCalls(labels[0][order[one]], at)


def code_of(*columns: Ints) -> Ints:
    """One number for each distinct row of the columns, in the order of the rows."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, index = np.unique(column, return_inverse=True)
        code = code * (len(values) + 1) + index
    return code
