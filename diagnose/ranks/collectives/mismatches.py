"""Mismatches between the ranks of a process group: counts, kinds, sizes, or no call at all.

Calls cut off at the edges of a capture are no mismatch: only steps that all the ranks captured are compared, and a rank
may lack the end of its last step and the beginning of its first. Collectives whose ranks are not in the traces are not
compared.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from diagnose.arrays import Ints, Mask
from diagnose.diagnosis.postmortem import Mismatch
from diagnose.facts import spoken
from diagnose.ranks.collectives.group_calls import ABSENT, GroupCalls, aligned_calls, code_of
from diagnose.ranks.collectives.kinds import SAME_SIZE, is_unknown, plain_kind
from diagnose.ranks.collectives.matching import groups_of
from diagnose.ranks.collectives.process_groups import named_ranks
from diagnose.ranks.digest import RankDigest


def mismatches_of(ranks: Sequence[RankDigest]) -> tuple[Mismatch, ...]:
    """The mismatches of the ranks: for each group its silent ranks, and the first place where the others differ."""
    position = {rank.rank: p for p, rank in enumerate(ranks)}
    return tuple(
        mismatch
        for calls in groups_of(ranks)
        if calls.group.ranks
        for mismatch in (_silent(calls, ranks, position), _difference(calls, ranks))
        if mismatch
    )


def _silent(calls: GroupCalls, ranks: Sequence[RankDigest], position: Mapping[int, int]) -> Mismatch | None:
    """Ranks of the group that recorded none of its collectives in steps in which its other ranks did."""
    taking_part, used = set(calls.members.tolist()), set(calls.step.tolist())
    others = [ranks[position[r]] for r in calls.group.ranks if r in position and position[r] not in taking_part]
    silent = tuple(rank.rank for rank in others if len(rank.calls) and used & set(rank.numbers))
    others_did = f"which {len(taking_part)} other ranks used"
    says = f"{named_ranks(silent)} ran no collective of group {calls.group.name}, {others_did}"
    return Mismatch(kind="missing", group=calls.group.name, ranks=silent, says=says) if silent else None


def _difference(calls: GroupCalls, ranks: Sequence[RankDigest]) -> Mismatch | None:
    members = [ranks[p] for p in calls.members.tolist()]
    common = sorted(set.intersection(*(set(rank.numbers) for rank in members)))
    uneven = next((found for step in _uneven_steps(calls, common) if (found := _count(calls, step, members))), None)
    until = int(uneven[0]) if uneven else np.iinfo(np.int64).max
    unlike = _unlike(calls, members, until)
    return unlike or (uneven[1] if uneven else None)


def _uneven_steps(calls: GroupCalls, common: Sequence[int]) -> list[int]:
    """The common steps of which the members have different numbers of collectives."""
    aligned = aligned_calls(calls, calls.step)
    return sorted(set(aligned.number[~aligned.full].tolist()) & set(common))


def _count(calls: GroupCalls, step: int, members: Sequence[RankDigest]) -> tuple[int, Mismatch] | None:
    """The members that ran fewer collectives in a step than the one with most, unless the capture cut them off."""
    label = code_of(calls.kind, np.where(_sized(calls), calls.bytes, ABSENT))
    inside = calls.step == step
    runs = [label[inside & (calls.member == m)].tolist() for m in range(len(members))]
    most = max(runs, key=len)
    short = [m for m, run in enumerate(runs) if len(run) < len(most) and not _is_cut(run, most, step, members[m])]
    if not short:
        return None
    first = min(_common_length(runs[m], most) for m in short)
    fewest = min(len(runs[m]) for m in short)
    longer = len(members) - sum(len(run) < len(most) for run in runs)
    odd, count, rest = (short, fewest, len(most)) if len(short) <= longer else (
        [m for m, run in enumerate(runs) if len(run) == len(most)], len(most), fewest
    )  # fmt: skip
    named = tuple(members[m].rank for m in odd)
    says = (
        f"{named_ranks(named)} ran {count} collectives of group {calls.group.name} in step {step}, other ranks {rest}"
    )
    where = f"; they differ from number {first + 1} on"
    lost = max(members[m].lost_share for m in short)
    where += f"; {spoken(lost, 'share')} of the launches of the shorter side were not recorded" if lost else ""
    return step, Mismatch(kind="count", group=calls.group.name, ranks=named, says=says + where)


def _is_cut(run: list[int], most: list[int], step: int, rank: RankDigest) -> bool:
    """Whether a rank lacks only what came before its first or after its last collective of the capture."""
    ends = step == rank.numbers[-1] and _common_length(run, most) == len(run)
    begins = step == rank.numbers[0] and _common_length(run[::-1], most[::-1]) == len(run)
    return ends or begins


def _common_length(a: list[int], b: list[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _unlike(calls: GroupCalls, members: Sequence[RankDigest], until: int) -> Mismatch | None:
    """The first place before a step at which the members' kinds or sizes differ."""
    if not calls.group.name:
        return None
    aligned = aligned_calls(calls, calls.seq if calls.has_seq else calls.step)
    whole = aligned.full if calls.has_seq else ~np.isin(aligned.number, aligned.number[~aligned.full])
    at = aligned.at[whole]
    at = at[calls.step[at].max(axis=1) < until]
    at = at[np.argsort(calls.call[at[:, 0]], kind="stable")]
    told = np.array([not is_unknown(kind) for kind in calls.kinds], bool)[calls.kind]
    kinds, sizes = np.where(told, calls.kind, ABSENT)[at], np.where(_sized(calls), calls.bytes, ABSENT)[at]
    for place in np.flatnonzero(_differs(kinds) | _differs(sizes)).tolist():
        kind = bool(_differs(kinds[place : place + 1])[0])
        return _at_place(calls, members, at[place], kinds[place] if kind else sizes[place], "kind" if kind else "size")
    return None


def _sized(calls: GroupCalls) -> Mask:
    """The calls whose message is as large on every rank."""
    sized = np.array([plain_kind(kind) in SAME_SIZE for kind in calls.kinds], bool)[calls.kind]
    return np.asarray(sized & (calls.bytes >= 0))


def _differs(values: Ints) -> Mask:
    """The places whose known values are not all the same."""
    lowest = np.where(values == ABSENT, np.iinfo(np.int64).max, values).min(axis=1)
    return np.asarray(values.max(axis=1) > lowest)


def _at_place(calls: GroupCalls, members: Sequence[RankDigest], at: Ints, values: Ints, kind: str) -> Mismatch:
    known = values != ABSENT
    seen, counts = np.unique(values[known], return_counts=True)
    usual = int(seen[np.argmax(counts)])
    odd = np.flatnonzero(known & (values != usual))
    named = tuple(members[m].rank for m in odd.tolist())
    texts = [_text(calls, value, kind) for value in (int(values[odd[0]]), usual)]
    seq, step = int(calls.seq[at[0]]), int(calls.step[at[0]])
    where = f"Seq {seq}, step {step}" if seq >= 0 else f"step {step}"
    verb = "ran" if kind == "kind" else "sent"
    others = f"other ranks of group {calls.group.name}"
    says = f"{named_ranks(named)} {verb} {texts[0]} where {others} {verb} {texts[1]} ({where})"
    return Mismatch(kind="kind" if kind == "kind" else "size", group=calls.group.name, ranks=named, says=says)


def _text(calls: GroupCalls, value: int, kind: str) -> str:
    return calls.kinds[value] if kind == "kind" else f"{value:,} bytes"
