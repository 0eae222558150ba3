"""The ranks of a job by what the others wait for them, the stragglers among them named, each with its reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from diagnose.arrays import Mask
from diagnose.diagnosis.postmortem import LatenessCause, Persistence
from diagnose.formulas import share
from diagnose.ranks.collectives.matching import Match
from diagnose.ranks.collectives.routing import routed
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.network.slow_links import SlowLink
from diagnose.ranks.stragglers.causes import Reason, reason_of
from diagnose.ranks.stragglers.evidence import (
    LatenessEvidence,
    stragglers_among,
    suspected_among,
    transient_delays,
    waiting_by_rank,
)
from diagnose.ranks.stragglers.lateness import NOBODY, Lateness, is_point_to_point

UNKNOWN = Reason("unknown", "")


@dataclass(frozen=True)
class RankLateness:
    """How late one rank is, what that cost the others, and why.

    Attributes:
        rank: its number in the job.
        caused_ns: waiting that it caused on others, in all counted steps.
        share: of the others' steps.
        lost_share: of the others' steps, what they lose by it: what they wait, or how far it is behind by its own
            doing where that is more, since waiting that hides behind other work delays the communication after it.
        reason: why it is late.
        stands_out: whether it is named.
        steps: numbers of the steps in which it is late.
        of_steps: number of the steps that were judged.
        persistence: "transient" for a rank that held up the job and is not named, "suspected" for one that causes most
            of the waiting of too few steps.
        own_ns: how far it is behind by its own doing, mean over those steps.
        waiting_share: of all the waiting in collectives, what it causes.
        last_at: collectives of the judged steps at which it arrived last.
        of_collectives: those that it took part in.
    """

    rank: int
    caused_ns: int
    share: float
    lost_share: float
    reason: Reason
    stands_out: bool
    steps: tuple[int, ...] = ()
    of_steps: int = 0
    persistence: Persistence = "persistent"
    own_ns: int = 0
    waiting_share: float = 0.0
    last_at: int = 0
    of_collectives: int = 0
    excess: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "excess", dict(self.reason.excess))

    @property
    def cause(self) -> LatenessCause:
        """The kind of reason."""
        return self.reason.cause


class Joined(msgspec.Struct, frozen=True):
    """The joined ranks, of which lateness is told."""

    ranks: Sequence[RankDigest]
    match: Match
    lateness: Lateness
    evidence: LatenessEvidence
    links: Sequence[SlowLink]


def rank_lateness_of(joined: Joined) -> list[RankLateness]:
    """What each rank made the others wait for, worst first."""
    evidence = joined.evidence
    named = stragglers_among(evidence)
    waiting = waiting_by_rank(evidence, named)
    transient, suspected = transient_delays(evidence, named), suspected_among(evidence, named)
    judged_ns = [_judged_ns(rank, joined.lateness) for rank in joined.ranks]
    whole_ns, lateness = sum(judged_ns), []
    for r in range(len(joined.ranks)):
        steps = np.isin(np.arange(waiting.shape[1]), [s for rank, s in transient if rank == r])
        late = evidence.late[r] if r in named or r == suspected else steps
        caused_ns = int(waiting[r].sum())
        of_others = share(caused_ns, whole_ns - judged_ns[r]) or 0.0
        told = _rank_lateness(joined, r, (caused_ns, of_others), late, named)
        lateness.append(replace(told, persistence="suspected") if r == suspected else told)
    return sorted(lateness, key=lambda late_rank: (not late_rank.stands_out, -late_rank.caused_ns))


def _rank_lateness(
    joined: Joined, rank: int, caused: tuple[int, float], late: Mask, named: Sequence[int]
) -> RankLateness:
    """Of the rank at a position, which `caused` so many nanoseconds of waiting, and what share of the others' steps."""
    ranks, evidence = joined.ranks, joined.evidence
    caused_ns, of_others = caused
    plain = RankLateness(ranks[rank].rank, caused_ns, of_others, of_others, UNKNOWN, rank in named)
    if not late.any():
        return plain
    own_ns = int(evidence.own_ns[rank][late].mean())
    last_at, of_collectives = _arrived_last(joined, rank)
    waited = int(evidence.caused_ns[rank][late].mean()) // max(len(ranks) - 1, 1)
    behind_share = share(evidence.own_ns[rank][late].sum(), evidence.step_ns.sum()) or 0.0
    return replace(
        plain,
        lost_share=max(of_others, behind_share) if list(named) == [rank] else of_others,
        reason=_reason(joined, rank, late, max(own_ns, waited)),
        steps=tuple(n for n, is_late in zip(joined.lateness.numbers, late.tolist(), strict=True) if is_late),
        of_steps=int(evidence.seen[rank].sum()),
        persistence="persistent" if rank in named else "transient",
        own_ns=own_ns,
        waiting_share=share(caused_ns, evidence.caused_ns.sum()) or 0.0,
        last_at=last_at,
        of_collectives=of_collectives,
    )


def _arrived_last(joined: Joined, rank: int) -> tuple[int, int]:
    """At how many matched collectives of the judged steps the rank arrived last, and in how many it took part."""
    last, of = 0, 0
    for group in joined.match:
        if rank in group.members and not is_point_to_point(joined.ranks, group):
            judged = joined.lateness.judges(joined.ranks[int(group.members[0])].calls.step[group.call[:, 0]])
            last += int((group.members[group.last[judged]] == rank).sum())
            of += int(judged.sum())
    return last, of


def _judged_ns(rank: RankDigest, lateness: Lateness) -> int:
    """Length of the rank's steps that are told of: without a GPU not of the first."""
    judged = lateness.judges(np.array(rank.numbers, np.int64))
    return int((rank.windows[:, 1] - rank.windows[:, 0])[judged].sum())


def _reason(joined: Joined, rank: int, late: Mask, waited_ns: int) -> Reason:
    own_ns = float(joined.lateness.own_ns[rank][late].mean())
    link = max((link for link in joined.links if rank in link.blamed), key=lambda link: link.extra_ns, default=None)
    if link is not None and link.extra_ns > own_ns:
        return Reason("link", link.because, explained_share=min(link.extra_ns / max(waited_ns, 1), 1.0))
    groups = joined.lateness.group[rank][late]
    members = joined.match[int(groups[-1])].members.tolist() if groups[-1] != NOBODY else range(len(joined.ranks))
    peers = [joined.ranks[p] for p in members if p != rank]
    tokens = routed(joined.ranks, joined.match, rank)
    steps = [number for number, is_late in zip(joined.lateness.numbers, late.tolist(), strict=True) if is_late]
    ns = joined.lateness.ns[rank][late]
    return reason_of(joined.ranks[rank], peers, joined.lateness, ns, waited_ns, tokens, steps)
