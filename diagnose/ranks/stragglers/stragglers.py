"""The ranks of a job by what the others wait for them, the stragglers among them named, each with its reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from diagnose.arrays import Mask
from diagnose.diagnosis.postmortem import LatenessCause, Persistence
from diagnose.ranks.collectives.matching import Match
from diagnose.ranks.collectives.routing import routed
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.network.slow_links import SlowLink
from diagnose.ranks.stragglers.causes import Reason, reason_of
from diagnose.ranks.stragglers.evidence import Evidence, passing, shared, stragglers_among
from diagnose.ranks.stragglers.lateness import NOBODY, Behind

UNKNOWN = Reason("unknown", "")


@dataclass(frozen=True)
class Blame:
    """One rank's lateness.

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
        persistence: "transient" for a rank that held up the job and is not named.
        own_ns: how far it is behind by its own doing, mean over those steps.
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
    excess: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "excess", dict(self.reason.excess))

    @property
    def cause(self) -> LatenessCause:
        """The kind of reason."""
        return self.reason.cause


@dataclass(frozen=True)
class Trial:
    """What blame rests on."""

    ranks: Sequence[RankDigest]
    match: Match
    behind: Behind
    evidence: Evidence
    links: Sequence[SlowLink]


def blame_of(trial: Trial) -> list[Blame]:
    """What each rank made the others wait for, worst first."""
    found = trial.evidence
    named = stragglers_among(found)
    blame = shared(found, named)
    brief = passing(found, named)
    blames = []
    for r in range(len(trial.ranks)):
        steps = np.isin(np.arange(blame.shape[1]), [s for rank, s in brief if rank == r])
        late = found.late[r] if r in named else steps
        blames.append(_blame(trial, r, int(blame[r].sum()), late, named))
    return sorted(blames, key=lambda b: (not b.stands_out, -b.caused_ns))


def _blame(trial: Trial, rank: int, caused_ns: int, late: Mask, named: Sequence[int]) -> Blame:
    ranks, found = trial.ranks, trial.evidence
    share = caused_ns / max(sum(_judged_ns(r, trial.behind) for p, r in enumerate(ranks) if p != rank), 1)
    plain = Blame(ranks[rank].rank, caused_ns, share, share, UNKNOWN, rank in named)
    if not late.any():
        return plain
    own_ns = int(found.own[rank][late].mean())
    waited = int(found.caused[rank][late].mean()) // max(len(ranks) - 1, 1)
    behind = float(found.own[rank][late].sum()) / max(int(found.step_ns.sum()), 1)
    return replace(
        plain,
        lost_share=max(share, behind) if list(named) == [rank] else share,
        reason=_reason(trial, rank, late, max(own_ns, waited)),
        steps=tuple(n for n, is_late in zip(trial.behind.numbers, late.tolist(), strict=True) if is_late),
        of_steps=len(late),
        persistence="persistent" if rank in named else "transient",
        own_ns=own_ns,
    )


def _judged_ns(rank: RankDigest, behind: Behind) -> int:
    """Length of the rank's steps that are told of: without a GPU not of the first."""
    judged = behind.judges(np.array(rank.numbers, np.int64))
    return int((rank.windows[:, 1] - rank.windows[:, 0])[judged].sum())


def _reason(trial: Trial, rank: int, late: Mask, waited_ns: int) -> Reason:
    own = float(trial.behind.own[rank][late].mean())
    link = max((link for link in trial.links if rank in link.members), key=lambda link: link.extra_ns, default=None)
    if link is not None and link.extra_ns > own:
        return Reason("link", link.because, explained_share=min(link.extra_ns / max(waited_ns, 1), 1.0))
    groups = trial.behind.group[rank][late]
    members = trial.match[int(groups[-1])].members.tolist() if groups[-1] != NOBODY else range(len(trial.ranks))
    peers = [trial.ranks[p] for p in members if p != rank]
    tokens = routed(trial.ranks, trial.match, rank)
    return reason_of(trial.ranks[rank], peers, trial.behind, trial.behind.ns[rank][late], waited_ns, tokens)
