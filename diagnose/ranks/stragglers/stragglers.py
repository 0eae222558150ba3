"""The ranks of a job by what the others wait for them, the stragglers among them named, each with its reason."""

import itertools
from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from diagnose.arrays import Ints, Mask
from diagnose.diagnosis.postmortem import Persistence
from diagnose.formulas import share
from diagnose.ranks.collectives.kinds import plain_kind
from diagnose.ranks.collectives.matching import GroupMatch, Match
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.network.slow_links import SlowLink
from diagnose.ranks.stragglers.causes import RankLateness, with_reason
from diagnose.ranks.stragglers.evidence import (
    FEWEST_TO_TELL,
    LatenessEvidence,
    possible_straggler,
    stragglers_among,
    transient_delays,
    waiting_by_rank,
)
from diagnose.ranks.stragglers.lateness import NOBODY, Lateness


class Joined(msgspec.Struct, frozen=True):
    """The joined ranks whose lateness is judged."""

    ranks: Sequence[RankDigest]
    match: Match
    lateness: Lateness
    evidence: LatenessEvidence
    links: Sequence[SlowLink]


def rank_lateness_of(joined: Joined) -> list[RankLateness]:
    """The lateness of each rank, worst first."""
    evidence = joined.evidence
    stragglers = stragglers_among(evidence)
    waiting = waiting_by_rank(evidence, stragglers)
    transient, possible = transient_delays(evidence, stragglers), possible_straggler(evidence, stragglers)
    judged_ns = [_judged_ns(rank, joined.lateness) for rank in joined.ranks]
    whole_ns, lateness = sum(judged_ns), []
    for r in range(len(joined.ranks)):
        steps = np.isin(np.arange(waiting.shape[1]), [s for rank, s in transient if rank == r])
        late = evidence.late[r] if r in stragglers or r == possible else steps
        caused_ns = int(waiting[r].sum())
        of_others = share(caused_ns, whole_ns - judged_ns[r]) or 0.0
        told = _rank_lateness(joined, r, (caused_ns, of_others), late, stragglers)
        lateness.append(replace(told, persistence="suspected") if r == possible else told)
    return sorted(lateness, key=lambda late_rank: (not late_rank.stands_out, -late_rank.waiting_ns_caused))


def _rank_lateness(
    joined: Joined, rank: int, caused: tuple[int, float], late: Mask, stragglers: Sequence[int]
) -> RankLateness:
    """The lateness of a rank; `caused` is the waiting it caused, in nanoseconds and as a share of the others' steps."""
    ranks, evidence = joined.ranks, joined.evidence
    caused_ns, of_others = caused
    plain = RankLateness(
        rank=ranks[rank].rank,
        cause="unknown",
        waiting_ns_caused=caused_ns,
        waiting_share=0.0,
        share=of_others,
        lost_share=of_others,
        stands_out=rank in stragglers,
    )
    if not late.any():
        return plain
    own_ns = int(evidence.own_ns[rank][late].mean())
    last_at, of_collectives = _arrived_last(joined, rank)
    waited = int(evidence.caused_ns[rank][late].mean()) // max(len(ranks) - 1, 1)
    behind_share = share(evidence.own_ns[rank][late].sum(), evidence.step_ns.sum()) or 0.0
    late_rank = replace(
        plain,
        lost_share=max(of_others, behind_share) if list(stragglers) == [rank] else of_others,
        steps=tuple(n for n, is_late in zip(joined.lateness.numbers, late.tolist(), strict=True) if is_late),
        steps_late=int(late.sum()),
        of_steps=int(evidence.seen[rank].sum()),
        persistence=_persistence(ranks[rank].steps, rank in stragglers),
        own_ns=own_ns,
        waiting_share=share(caused_ns, evidence.caused_ns.sum()) or 0.0,
        last_at=last_at,
        of_collectives=of_collectives,
    )
    return _with_reason(late_rank, joined, rank, late, max(own_ns, waited))


def _persistence(counted_steps: int, stands_out: bool) -> Persistence:
    """Whether a rank that stands out always does: too few steps let it only be suspected."""
    if not stands_out:
        return "transient"
    return "persistent" if counted_steps >= FEWEST_TO_TELL else "suspected"


def _arrived_last(joined: Joined, rank: int) -> tuple[int, int]:
    """Number of matched collectives of the judged steps at which the rank arrived last, and in which it took part."""
    last, of = 0, 0
    for group in itertools.compress(joined.match, joined.lateness.compared):
        if rank in group.members:
            judged = joined.lateness.judges(joined.ranks[int(group.members[0])].calls.step[group.call[:, 0]])
            last += int((group.members[group.last[judged]] == rank).sum())
            of += int(judged.sum())
    return last, of


def _judged_ns(rank: RankDigest, lateness: Lateness) -> int:
    """Length of the rank's judged steps; without a GPU, the first is left out."""
    judged = lateness.judges(np.array(rank.numbers, np.int64))
    return int((rank.windows[:, 1] - rank.windows[:, 0])[judged].sum())


def _with_reason(late_rank: RankLateness, joined: Joined, rank: int, late: Mask, waited_ns: int) -> RankLateness:
    own_ns = float(joined.lateness.own_ns[rank][late].mean())
    link = max((link for link in joined.links if rank in link.slow_ranks), key=lambda link: link.extra_ns, default=None)
    if link is not None and link.extra_ns > own_ns:
        explained_share = min(link.extra_ns / max(waited_ns, 1), 1.0)
        return replace(late_rank, cause="link", because=link.because, explained_share=explained_share)
    groups = joined.lateness.group[rank][late]
    members = joined.match[int(groups[-1])].members.tolist() if groups[-1] != NOBODY else range(len(joined.ranks))
    peers = [joined.ranks[p] for p in members if p != rank]
    tokens = routed(joined.ranks, joined.match, rank)
    ns = joined.lateness.ns[rank][late]
    return with_reason(late_rank, joined.ranks[rank], peers, joined.lateness, ns, waited_ns, tokens)


# The balance of all-to-alls, which carry for example the tokens of a mixture of experts.

ALL_TO_ALL = "alltoall"


def routed(ranks: Sequence[RankDigest], matched: Match, position: int) -> float | None:
    """Elements that all-to-alls brought to a rank's experts, over the median of the other ranks of its group.

    On the way there the ranks send equal and receive unequal amounts, on the way back the reverse: the uneven side
    counts. None if the rank takes part in none whose sizes were recorded.
    """
    loads = [
        (load, group) for group in matched if position in group.members and (load := _load(ranks, group)) is not None
    ]
    if not loads:
        return None
    load, group = max(loads, key=lambda pair: int(pair[0].sum()))
    is_own = group.members == position
    return share(load[is_own][0], np.median(load[~is_own]))


def _load(ranks: Sequence[RankDigest], group: GroupMatch) -> Ints | None:
    """Elements on the uneven side of a group's all-to-alls, shape (members,)."""
    members = [ranks[p].calls for p in group.members.tolist()]
    is_all_to_all = np.array([plain_kind(kind) == ALL_TO_ALL for kind in members[0].kinds], bool)
    rows = group.call[is_all_to_all[members[0].kind[group.call[:, 0]]]]
    if not len(rows) or group.paired or any(len(calls.sent) != len(calls) for calls in members):
        return None
    sent = np.stack([calls.sent[rows[:, m]] for m, calls in enumerate(members)], axis=1)
    received = np.stack([calls.received[rows[:, m]] for m, calls in enumerate(members)], axis=1)
    if min(sent.min(), received.min()) < 0:
        return None
    on_receipt = np.ptp(received, axis=1) >= np.ptp(sent, axis=1)
    return np.asarray(np.where(on_receipt[:, None], received, sent).sum(axis=0))
