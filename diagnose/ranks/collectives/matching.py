"""Match the collectives of different ranks.

Instances match by process group and Seq if every rank of the group recorded them. A process group numbers its
collectives alike on all its ranks, and NCCL hangs if they are not issued in one order, so in a job that runs, a number
or a place in the order means the same collective. Without Seq the order within a step, group and kind is taken, and
trusted only in steps in which every rank has equally many of each, of equal sizes: a call missing on one rank would
shift all later ones. Steps that some of the group's ranks did not capture, whose traces are shorter or cut off, match
between the others. Sends match receives between two ranks alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np
from msgspec.structs import replace

from diagnose.arrays import Ints, Mask
from diagnose.facts import Unknown, analysis_option, another_run, capture_setting, nothing_helps
from diagnose.formulas.collectives import transfer_by_duration, waiting_by_duration
from diagnose.ranks.collectives.group_calls import AlignedCalls, GroupCalls, aligned_calls, gathered
from diagnose.ranks.collectives.kinds import SAME_SIZE, SEND_RECEIVE, SYMMETRIC, is_unknown, plain_kind
from diagnose.ranks.collectives.process_groups import ProcessGroup
from diagnose.ranks.digest import RankDigest
from diagnose.timeline import grouped

ALONE = Unknown("one rank cannot tell transfer from waiting", analysis_option("the traces of all ranks of the job"))
_NONE_RECORDED = Unknown(
    "no collective was recorded in the counted steps", nothing_helps("the ranks do not communicate")
)
_AMBIGUOUS = Unknown(
    "several process groups share one name and the traces do not list their ranks",
    capture_setting("torch 2.3 or later, which records the ranks of each process group"),
)
_OTHER_STEPS = Unknown(
    "the ranks captured different steps",
    another_run("capture the same steps on every rank: count them alike and start together"),
)
_UNEQUAL = Unknown(
    "the ranks recorded different numbers of collectives, so their order does not match them",
    another_run("capture the same steps on every rank, with a torch that records Seq (2.12 or later)"),
)


class GroupMatch(msgspec.Struct, frozen=True, dict=True):
    """The collectives of one process group that all its analysed ranks took part in.

    Attributes:
        group: its name and, if known, its ranks.
        members: positions of its ranks in the job, shape (members,).
        call: for each instance the row of each member's `calls`, shape (instances, members), in order of start on the
            first member.
        start: nanoseconds of each rank's own clock, as `end`, of the same shape.
        symmetric: whether no member can end an instance before all have begun it, shape (instances,).
        paired: whether the instances are sends and their receives, and the members sender and receiver.
        absent: ranks of the group without a trace of these steps, 0 if their number is not known. Any of them may have
            come last, so the shortest duration is only an upper bound on the transfer.
    """

    group: ProcessGroup
    members: Ints
    call: Ints
    start: Ints
    end: Ints
    symmetric: Mask
    paired: bool = False
    absent: int = 0

    @property
    def duration(self) -> Ints:
        """Nanoseconds that each rank spent in each collective."""
        return self.end - self.start

    @cached_property
    def transfer(self) -> Ints:
        """Shortest duration over the ranks: the last to arrive does not wait. Needs no common clock."""
        return transfer_by_duration(self.duration)

    @property
    def waiting(self) -> Ints:
        """Nanoseconds that each rank waited in each collective."""
        return waiting_by_duration(self.duration)

    @cached_property
    def last(self) -> Ints:
        """Position among the members of the rank that came last to each collective."""
        return np.asarray(self.duration.argmin(axis=1), np.int64)


Match = tuple[GroupMatch, ...]


def match(ranks: Sequence[RankDigest]) -> Match | Unknown:
    """Match the collectives of several ranks group by group, or return the reason why none can be matched."""
    if len(ranks) < 2:
        return ALONE
    if not any(len(rank.calls) for rank in ranks):
        return _NONE_RECORDED
    groups = [match for calls in groups_of(ranks) for match in _matches(calls, ranks)]
    return tuple(f for f in (*groups, *_pairs(ranks)) if len(f.call)) or _why_none(ranks)


def _why_none(ranks: Sequence[RankDigest]) -> Unknown:
    if all(group.ambiguous for rank in ranks for group in rank.calls.groups):
        return _AMBIGUOUS
    return _UNEQUAL if set.intersection(*(set(rank.numbers) for rank in ranks)) else _OTHER_STEPS


def groups_of(ranks: Sequence[RankDigest]) -> Iterator[GroupCalls]:
    """The collectives of each process group that two or more of the ranks are known to share; no sends."""
    listed: dict[str, set[ProcessGroup]] = {}
    for group in {group for rank in ranks for group in rank.calls.groups if group.ranks}:
        listed.setdefault(group.name, set()).add(group)
    rows_of: dict[ProcessGroup, dict[int, Ints]] = {}
    for position, rank in enumerate(ranks):
        calls = rank.calls
        sent = np.array([kind == SEND_RECEIVE for kind in map(plain_kind, calls.kinds)], bool)
        own_rows = np.flatnonzero(~sent[calls.kind]) if len(calls) else np.zeros(0, np.int64)
        for rows in (own_rows[aligned] for aligned in grouped(calls.group[own_rows])):
            group = calls.groups[int(calls.group[rows[0]])]
            of_rank = rows_of.setdefault(_resolved(group, rank.rank, listed), {})
            of_rank[position] = np.union1d(of_rank[position], rows) if position in of_rank else rows
    return (gathered(g, rows, ranks) for g, rows in rows_of.items() if len(rows) > 1 and not g.ambiguous)


def _resolved(group: ProcessGroup, rank: int, listed: Mapping[str, set[ProcessGroup]]) -> ProcessGroup:
    """The group of the same name that contains the rank, if other ranks list its members and this one does not."""
    if group.ranks:
        return group
    candidates = [g for g in listed.get(group.name, ()) if rank in g.ranks]
    return candidates[0] if len(candidates) == 1 else group


def _matches(calls: GroupCalls, ranks: Sequence[RankDigest]) -> Iterator[GroupMatch]:
    """The collectives that all the ranks took part in, and those of steps that only some of them captured."""
    yield (whole := _matched(calls, ranks))
    members = calls.members.tolist()
    if len({ranks[p].numbers for p in members}) == 1:
        return
    steps, of_step = np.unique(calls.step, return_inverse=True)
    captured = np.stack([np.isin(steps, ranks[p].numbers) for p in members], axis=1)
    left = ~_within(calls, whole)
    for some in np.unique(captured[(captured.sum(axis=1) > 1) & ~captured.all(axis=1)], axis=0):
        rows = left & (captured == some).all(axis=1)[of_step]
        of = {members[m]: calls.call[rows & (calls.member == m)] for m in np.flatnonzero(some).tolist()}
        if all(map(len, of.values())):
            part = _matched(gathered(calls.group, of, ranks), ranks)
            yield replace(part, absent=max(part.absent, len(members) - len(of)))


def _within(calls: GroupCalls, match: GroupMatch) -> Mask:
    """Mask of the calls that are matched."""
    within = np.zeros(len(calls.call), bool)
    for m in range(len(calls.members)):
        own = np.flatnonzero(calls.member == m)
        within[own] = np.isin(calls.call[own], match.call[:, m])
    return within


def _matched(calls: GroupCalls, ranks: Sequence[RankDigest]) -> GroupMatch:
    if calls.has_seq:
        aligned = aligned_calls(calls, calls.seq)
        kept = aligned.full & _alike(calls, aligned)
    else:
        aligned = aligned_calls(calls, calls.step, calls.kind) if calls.has_kinds else aligned_calls(calls, calls.step)
        sound = aligned.full & _alike(calls, aligned)
        kept = ~np.isin(aligned.number, aligned.number[~sound])
    at = aligned.at[kept]
    call = calls.call[at]
    return _instances(calls.group, calls.members, call, ranks)


def _alike(calls: GroupCalls, aligned: AlignedCalls) -> Mask:
    """The places at which the members' kinds and sizes agree, as far as they are known."""
    kinds = np.array([not is_unknown(kind) for kind in calls.kinds], bool)
    sized = np.array([plain_kind(kind) in SAME_SIZE for kind in calls.kinds], bool)[calls.kind] & (calls.bytes >= 0)
    return _equal(calls.kind, kinds[calls.kind], aligned.at) & _equal(calls.bytes, sized, aligned.at)


def _equal(values: Ints, known: Mask, at: Ints) -> Mask:
    """Whether the known ones of the values at each place are all the same."""
    seen = known[at] & (at >= 0)
    placed = values[at]
    highest = np.where(seen, placed, np.iinfo(np.int64).min).max(axis=1)
    lowest = np.where(seen, placed, np.iinfo(np.int64).max).min(axis=1)
    return np.asarray(highest <= lowest)


def _instances(
    group: ProcessGroup, members: Ints, call: Ints, ranks: Sequence[RankDigest], paired: bool = False
) -> GroupMatch:
    calls = [ranks[p].calls for p in members.tolist()]
    start = np.stack([own_calls.start[call[:, m]] for m, own_calls in enumerate(calls)], axis=1)
    order = np.argsort(start[:, 0], kind="stable")
    call = call[order]
    symmetric = np.array([plain_kind(kind) in SYMMETRIC for kind in calls[0].kinds], bool)
    return GroupMatch(
        group=group,
        members=members,
        call=call,
        start=start[order],
        end=np.stack([own_calls.end[call[:, m]] for m, own_calls in enumerate(calls)], axis=1),
        symmetric=symmetric[calls[0].kind[call[:, 0]]] if len(call) else np.zeros(0, bool),
        paired=paired,
        absent=max(_size(group, members, call, ranks) - len(members), 0),
    )


def _size(group: ProcessGroup, members: Ints, call: Ints, ranks: Sequence[RankDigest]) -> int:
    """Number of ranks in the group: as listed, as recorded, else all of the job."""
    if group.ranks or not len(call):
        return len(group.ranks)
    first = ranks[int(members[0])]
    recorded = int(first.calls.size[call[0, 0]])
    return recorded if recorded > 0 else first.world_size or 0


def _pairs(ranks: Sequence[RankDigest]) -> Iterator[GroupMatch]:
    """The sends of one rank to another, each with its receive: in order, if a step has equally many of both."""
    position = {rank.rank: p for p, rank in enumerate(ranks)}
    ends: dict[tuple[int, int, str], dict[int, Ints]] = {}
    for p, rank in enumerate(ranks):
        ways: dict[tuple[int, int, int], list[int]] = {}
        for row, sender, receiver in rank.calls.messages.tolist():
            ways.setdefault((sender, receiver, int(rank.calls.group[row])), []).append(row)
        for (sender, receiver, number), rows in ways.items():
            name = rank.calls.groups[number].name
            ends.setdefault((sender, receiver, name), {})[p] = np.array(sorted(rows), np.int64)
    for (sender, receiver, name), of_end in ends.items():
        both = [position.get(sender, -1), position.get(receiver, -1)]
        if sender != receiver and set(both) == set(of_end):
            yield _pair(ProcessGroup(name, (sender, receiver)), {p: of_end[p] for p in both}, ranks)


def _pair(group: ProcessGroup, rows: Mapping[int, Ints], ranks: Sequence[RankDigest]) -> GroupMatch:
    calls = gathered(group, rows, ranks)
    aligned = aligned_calls(calls, calls.step)
    kept = ~np.isin(aligned.number, aligned.number[~aligned.full])
    return _instances(group, calls.members, calls.call[aligned.at[kept]], ranks, paired=True)
