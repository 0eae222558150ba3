"""Decide which ranks make the others wait: those that are late by more than chance, step after step."""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from diagnose.arrays import Ints, Mask
from diagnose.diagnosis.postmortem import FEW_STEPS
from diagnose.formulas import share
from diagnose.formulas.statistics import DIXON_FROM, NORMAL_SPREAD, dixon_critical, robust_deviation, t_quantile
from diagnose.ranks.collectives.matching import Match
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.stragglers.few_steps import CLEAR_SHARE, Slowest, is_apart, own_steps, slowest_of
from diagnose.ranks.stragglers.lateness import NOBODY, Lateness

MIN_SHARE = 0.05
MIN_SHARE_ON_HOST = 0.10  # the host's scheduler alone moves ranks apart by several per cent
PERSISTENT = 2 / 3
FEWEST_TO_TELL = 3  # counted steps: fewer do not tell what is always so from what came once
LASTING = 5  # steps at the end of the window, in all of which a rank is late that was not before
PART_SEEN = 1 / 3  # of the lateness: the rest of the waiting may hide behind other work
MIN_VOTES = 2
CHANCE = 0.01  # that an equal rank leads by so much
CHANCE_OF_FEW = 0.025  # the same in three steps or fewer
OUTLIER = 3.5  # modified z-score (Iglewicz and Hoaglin)
LEAST_SPREAD = 0.005  # of the step: ranks closer than this are alike
SUSPICIOUS = 2.5  # times the share that is noise, for which each other rank waits
MOST_OF_IT = 0.8  # of the waiting, which a rank causes that is suspected


class LatenessEvidence(msgspec.Struct, frozen=True):
    """The evidence for naming late ranks; arrays of shape (ranks, steps) unless stated otherwise.

    Attributes:
        caused_ns: nanoseconds that the others wait for each rank.
        own_ns: nanoseconds that each rank is behind the others by its own doing.
        step_ns: length of the step, mean over ranks, shape (steps,).
        noise_share: share of the step below which lateness is noise.
        votes: collectives in which each rank alone comes later than chance allows, shape (ranks,).
        peers: for each rank, the ranks of the groups in which it is furthest behind, mask of shape (ranks, ranks);
            nobody else waits for it without a messenger between them.
        work_ns: for each rank, the time of every counted step without communication.
        slowest: for each rank, the number of collectives in which it is the slowest.
        seen: mask of the ranks and steps that can be judged: those in which the rank is matched with others.
        rivals: for each rank, those with whose waiting the waiting for it is compared, mask of shape (ranks, ranks): in
            a pipeline the ranks of its stage, since stages wait for each other by design; None for all ranks.
    """

    caused_ns: Ints
    own_ns: Ints
    step_ns: Ints
    noise_share: float
    votes: Ints
    peers: Mask
    work_ns: tuple[Ints, ...]
    slowest: tuple[Slowest, ...]
    seen: Mask
    rivals: Mask | None = None

    @property
    def late(self) -> Mask:
        """Mask of the ranks and steps behind by more than noise."""
        return np.asarray(self.own_ns >= self.noise_share * self.step_ns)


def evidence_of(
    ranks: Sequence[RankDigest],
    matched: Match,
    lateness: Lateness,
    caused_ns: Ints,
    by_link: Mapping[int, int] | None = None,
    rivals: Mask | None = None,
) -> LatenessEvidence:
    """Gather the evidence that distinguishes a late rank from an unlucky one.

    Args:
        ranks: ranks of the job.
        matched: their collectives by group.
        lateness: how far each is behind at the end of each step.
        caused_ns: the result of `waiting_caused`.
        by_link: positions of ranks whose own links are slow, with the cost to them in each step.
        rivals: those of each rank in a pipeline.
    """
    own_ns = lateness.own_ns.copy()
    for rank, extra in (by_link or {}).items():
        own_ns[rank] += extra
    noise_share = MIN_SHARE if all(rank.has_gpu for rank in ranks) else MIN_SHARE_ON_HOST
    step_ns = _step_ns(ranks, lateness)
    return LatenessEvidence(
        caused_ns=caused_ns,
        own_ns=own_ns,
        step_ns=step_ns,
        noise_share=noise_share,
        votes=votes_of(matched, len(ranks)),
        peers=_peers(matched, lateness),
        work_ns=tuple(own_steps(rank) for rank in ranks),
        slowest=slowest_of(ranks, matched, lateness, (noise_share * step_ns).astype(np.int64)),
        seen=lateness.group != NOBODY,
        rivals=rivals,
    )


def _peers(matched: Match, lateness: Lateness) -> Mask:
    peers = np.zeros((len(lateness.group), len(lateness.group)), bool)
    for rank, groups in enumerate(lateness.group):
        for group in set(groups.tolist()) - {NOBODY}:
            peers[rank, matched[group].members] = True
    return peers


def _step_ns(ranks: Sequence[RankDigest], lateness: Lateness) -> Ints:
    sums, count = (np.zeros(lateness.ns.shape[1], np.int64) for _ in range(2))
    for rank in ranks:
        numbers = np.array(rank.numbers, np.int64)
        judged = lateness.judges(numbers)
        np.add.at(sums, lateness.at(numbers[judged]), (rank.windows[:, 1] - rank.windows[:, 0])[judged])
        np.add.at(count, lateness.at(numbers[judged]), 1)
    return sums // np.maximum(count, 1)


def votes_of(matched: Match, ranks: int) -> Ints:
    """For each rank, the number of collectives of five or more ranks in which it alone comes later than by chance.

    The last rank has the shortest duration; Dixon's ratio, the gap to the next over the range of all, shows whether it
    is apart from the rest.
    """
    votes = np.zeros(ranks, np.int64)
    for group in matched:
        members = len(group.members)
        if members < DIXON_FROM:
            continue
        order = np.sort(group.duration, axis=1)
        gap, spread = order[:, 1] - order[:, 0], order[:, -1] - order[:, 0]
        critical = dixon_critical(members)
        np.add.at(votes, group.members[group.last[(spread > 0) & (gap >= critical * spread)]], 1)
    return votes


def stragglers_among(evidence: LatenessEvidence) -> tuple[int, ...]:
    """Positions of the ranks to name, those furthest behind first; none in a healthy job, and at most half of all.

    Each of them is behind by its own doing by 5 % of its steps (10 % without a GPU), in two thirds of the steps (in all
    of them if there are three or fewer). It is an outlier among the ranks, and its lag behind those that are not named
    is significant: one-sided t-test over the steps, 1 % (2.5 % up to three steps). If three steps or fewer leave that
    open, a rank that is far apart in every step is named too, and so is one that is the slowest in most collectives.

    Together they cause far more of the waiting than their even share, in as many steps, and a third of that lateness is
    seen as exposed waiting of the ranks of their groups. A single step names one rank at most, by the vote of the
    collectives. If the whole window names nobody, its last steps may: a rank gets slower while it runs.
    """
    return _stragglers(evidence) or _stragglers_since(evidence)


def _stragglers_since(evidence: LatenessEvidence) -> tuple[int, ...]:
    """The rank that is late in all of the last five steps or more and in none before, if these alone name it."""
    found = []
    for rank, late in enumerate(evidence.late):
        begun = int(late.argmax())
        if len(late) - begun >= LASTING and begun > 0 and late[begun:].all():
            found += [rank] if _stragglers(_from(evidence, begun)) == (rank,) else []
    return tuple(found[:1])


def _from(evidence: LatenessEvidence, begun: int) -> LatenessEvidence:
    """The evidence of the steps from one on."""
    by_step = ("caused_ns", "own_ns", "seen", "step_ns")
    return replace(evidence, **{name: getattr(evidence, name)[..., begun:] for name in by_step})


def _stragglers(evidence: LatenessEvidence) -> tuple[int, ...]:
    stragglers = np.flatnonzero([_is_behind(evidence, rank) for rank in range(len(evidence.own_ns))])
    while len(stragglers):
        certain = np.array([r for r in stragglers.tolist() if _stands_out(evidence, r, stragglers)], np.int64)
        if len(certain) == len(stragglers):
            break
        stragglers = certain
    if (
        not len(stragglers)
        or 2 * len(stragglers) > len(evidence.own_ns)
        or not _cause_the_waiting(evidence, stragglers)
    ):
        return ()
    return tuple(stragglers[np.argsort(-evidence.own_ns[stragglers].sum(axis=1), kind="stable")].tolist())


def _is_behind(evidence: LatenessEvidence, rank: int) -> bool:
    """Whether the rank is late in enough of the steps that show it, and by more than noise over all of them."""
    seen = evidence.seen[rank]
    enough = evidence.noise_share * evidence.step_ns[seen].sum()
    return bool(seen.any() and _steady(evidence.late[rank][seen]) and evidence.own_ns[rank][seen].sum() >= enough)


def _steady(late: Mask) -> Mask:
    """Whether something holds in enough of all steps, the last axis."""
    return np.asarray(late.all(axis=-1) if late.shape[-1] <= FEW_STEPS else late.mean(axis=-1) >= PERSISTENT)


def _cause_the_waiting(evidence: LatenessEvidence, stragglers: Ints) -> bool:
    """Whether the named ranks cause far more than their even share of the waiting; steps without waiting have none."""
    every = np.ones(len(evidence.own_ns), bool)
    rivals = every if evidence.rivals is None else np.asarray(evidence.rivals[stragglers].any(axis=0))
    seen = evidence.seen[stragglers].any(axis=0)
    totals = evidence.caused_ns[np.ix_(rivals, seen)].sum(axis=0)
    together = evidence.caused_ns[np.ix_(stragglers, seen)].sum(axis=0)
    dominant = (1 + len(stragglers) / int(rivals.sum())) / 2
    peers = np.asarray(evidence.peers[stragglers].any(axis=0))
    peers[stragglers] = False
    enough = PART_SEEN * evidence.noise_share * evidence.step_ns[seen].sum() * int(peers.sum())
    leads = (totals > 0) & (together >= dominant * totals)
    return bool(together.sum() >= max(enough, dominant * totals.sum()) and _steady(leads))


def _stands_out(evidence: LatenessEvidence, rank: int, stragglers: Ints) -> bool:
    """Whether the rank's lateness is apart from that of the ranks that are not named."""
    others = np.delete(np.arange(len(evidence.own_ns)), stragglers)
    if not len(others):
        return False
    lead = (evidence.own_ns[rank] - evidence.own_ns[others].max(axis=0))[evidence.seen[rank]]
    if len(lead) <= FEW_STEPS and _stands_out_of_few(evidence, rank, others, lead):
        return True
    if len(lead) == 1:
        return bool(evidence.votes[rank] >= MIN_VOTES and evidence.votes[rank] > np.delete(evidence.votes, rank).max())
    return _significant(lead) and effect(evidence, rank, others) >= OUTLIER


def _stands_out_of_few(evidence: LatenessEvidence, rank: int, others: Ints, lead: Ints) -> bool:
    """Whether the effect is so large that a few steps are enough."""
    peers = [other for other in others.tolist() if evidence.peers[rank, other]]
    step_ns = float(evidence.step_ns.mean())
    apart = is_apart(evidence.work_ns[rank], [evidence.work_ns[p] for p in peers], step_ns)
    own_ns = evidence.own_ns[rank][evidence.seen[rank]]
    ahead = np.minimum(lead, own_ns)  # of two ranks the punctual one is as far behind zero
    large = float(ahead.mean()) >= CLEAR_SHARE / np.sqrt(len(lead)) * step_ns
    return apart or (large and evidence.slowest[rank].is_no_chance(len(peers) + 1))


def lead_share(evidence: LatenessEvidence, stragglers: Sequence[int]) -> float:
    """The lag of the latest named rank behind the latest of the others by its own doing, as a share of the step.

    It is counted per step, so that a lag in one step is not offset by a lead in another.
    """
    others = np.delete(evidence.own_ns, stragglers, axis=0).max(axis=0, initial=0)
    lead = np.maximum(evidence.own_ns[stragglers].max(axis=0, initial=0) - others, 0)
    return share(lead.sum(), evidence.step_ns.sum()) or 0.0


def possible_straggler(evidence: LatenessEvidence, stragglers: Sequence[int]) -> int | None:
    """Position of the one rank that causes most of the waiting, if the steps are too few or too unlike to name it.

    It is behind in all of them, and each other rank waits for it far longer than noise makes ranks wait.
    """
    if len(stragglers):
        return None
    rank = int(evidence.own_ns.sum(axis=1).argmax())
    waiting, whole = evidence.caused_ns[rank].sum(), evidence.step_ns.sum()
    long = waiting >= SUSPICIOUS * evidence.noise_share * whole * (len(evidence.own_ns) - 1)
    behind = evidence.own_ns[rank].sum() >= evidence.noise_share * whole and evidence.late[rank].all()
    sole = waiting >= MOST_OF_IT * evidence.caused_ns.sum()
    return rank if behind and long and sole and _cause_the_waiting(evidence, np.array([rank])) else None


def _significant(lead: Ints) -> bool:
    """Whether a lead, step by step, is too steady for chance."""
    beyond = CHANCE_OF_FEW if len(lead) <= FEW_STEPS else CHANCE
    error = float(lead.std(ddof=1)) / np.sqrt(len(lead))
    return bool(lead.mean() > t_quantile(beyond, len(lead) - 1) * error)


def effect(evidence: LatenessEvidence, rank: int, others: Ints) -> float:
    """Effect size: the rank's distance from the median of the others in their spread, a modified z-score."""
    seen = evidence.seen[rank]
    own_ns, rest = float(evidence.own_ns[rank][seen].mean()), evidence.own_ns[np.ix_(others, seen)].mean(axis=1)
    alike = max(LEAST_SPREAD * float(evidence.step_ns.mean()), 1.0)
    return (own_ns - float(np.median(rest))) / max(robust_deviation(rest), NORMAL_SPREAD * alike)


def waiting_by_rank(evidence: LatenessEvidence, stragglers: Sequence[int]) -> Ints:
    """The waiting by rank and step; what several named ranks cause is divided in proportion to their lateness."""
    waiting = evidence.caused_ns.copy()
    if len(stragglers) > 1:
        rows = np.array(stragglers, np.int64)
        late = np.maximum(evidence.own_ns[rows], 0)
        part = late / np.maximum(late.sum(axis=0), 1)  # the product of two times may not fit 63 bits
        waiting[rows] = (evidence.caused_ns[rows].sum(axis=0) * part).astype(np.int64)
    return waiting


def transient_delays(evidence: LatenessEvidence, stragglers: Sequence[int]) -> list[tuple[int, int]]:
    """Ranks and positions of steps in which an unnamed rank delayed the job as if it were a straggler.

    Nothing when it happens in more than a third of the steps: then it is an imbalance, unless it is always the same
    rank, as one that evaluates every other step.
    """
    totals, ranks = evidence.caused_ns.sum(axis=0), len(evidence.own_ns)
    alone = evidence.caused_ns >= (1 + 1 / ranks) / 2 * np.maximum(totals, 1)
    long = evidence.caused_ns >= 2 * evidence.noise_share * evidence.step_ns * (ranks - 1)
    places = [(r, s) for r, s in np.argwhere(alone & long & evidence.late).tolist() if r not in stragglers]
    steps = evidence.own_ns.shape[1]
    most = PERSISTENT if len({rank for rank, _ in places}) == 1 else 1 - PERSISTENT
    return places if steps > FEW_STEPS and len(places) <= most * steps else []
