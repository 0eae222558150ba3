"""The joined job as the Diagnosis holds it."""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from diagnose.arrays import Ints
from diagnose.diagnosis.postmortem import Postmortem
from diagnose.formulas import share
from diagnose.formulas.collectives import transfer_by_start, waiting_by_start
from diagnose.ranks.collectives.clocks import Alignment, align, bases_of, clocks_of, torn_hosts
from diagnose.ranks.collectives.matching import GroupMatch, Match
from diagnose.ranks.collectives.mismatches import mismatches_of
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.job import Job
from diagnose.ranks.missing import missing_ranks
from diagnose.ranks.network.traffic import traffic_of
from diagnose.ranks.stragglers.straggler_report import possible_stragglers_of, transient_stragglers_of


def postmortem_of(job: Job, measured_ranks: Sequence[int]) -> Postmortem | None:
    """The results on the job beyond its breakdown; None for a single rank.

    If the profiler distorts steps, they include no waiting and no traffic, since ranks wait for those that it delays.

    Args:
        job: the joined ranks.
        measured_ranks: those on which the rules were judged.
    """
    if len(job.ranks) < 2:
        return None
    alignment = align(job.ranks, job.match)
    agreed = agreement(job.ranks, job.match, alignment)
    return Postmortem(
        matched=sum(len(group.call) for group in job.match),
        missing_ranks=missing_ranks(job.ranks),
        measured_ranks=tuple(measured_ranks),
        clocks=clocks_of(job.ranks, alignment),
        clocks_agree=None if agreed is None else agreed >= AGREE,
        mismatches=(*mismatches_of(job.ranks), *torn_hosts(job.ranks, job.match, alignment)),
        passing=transient_stragglers_of(job),
        suspected=possible_stragglers_of(job),
        traffic=traffic_of(job.ranks, job.match, job.view.topology) if job.view.distortion is None else (),
        changes=job.changes.changes,
        changes_error=job.changes.error,
        no_changes_because=job.changes.because,
    )


# Transfer and waiting by start times on aligned clocks, compared with those by durations, which need no clocks.
#
# The breakdown uses durations; the two differ if ranks do not end a collective together.

RESIDUALS = 3
AGREE = 0.9
_OF_TWO = 2**0.5  # waiting is a distance between two clocks


class ByStart(msgspec.Struct, frozen=True):
    """Transfer and waiting of one group by start times, shape (instances, members), nanoseconds.

    Waiting of no more than `error_ns`, three residuals of two clocks, is not claimed: it is zero here.
    """

    transfer: Ints
    waiting: Ints
    error_ns: float


def by_start(ranks: Sequence[RankDigest], group: GroupMatch, alignment: Alignment) -> ByStart | None:
    """Transfer and waiting on aligned clocks; None if a member's clock is not aligned, or its error is unknown."""
    error = RESIDUALS * _OF_TWO * float(alignment.residual[group.members].max())
    if not np.isfinite(error):
        return None
    base = bases_of([ranks[p] for p in group.members.tolist()])
    start, end = (alignment.aligned(group.members, times + base) for times in (group.start, group.end))
    waiting = waiting_by_start(start)
    return ByStart(transfer_by_start(start, end), np.where(waiting > error, waiting, 0), error)


def agreement(ranks: Sequence[RankDigest], matched: Match, alignment: Alignment) -> float | None:
    """Part of all waiting above three residuals on which durations and start times agree within three residuals.

    None if no waiting is that long, or no clock is aligned that well.
    """
    parts = [_compared(group, waits) for group, waits in _aligned(ranks, matched, alignment)]
    claimed, agreed = sum(c for c, _ in parts), sum(a for _, a in parts)
    return share(agreed, claimed)


def _aligned(ranks: Sequence[RankDigest], matched: Match, alignment: Alignment) -> Iterator[tuple[GroupMatch, ByStart]]:
    for group in matched:
        waits = None if group.paired else by_start(ranks, group, alignment)
        if waits is not None:
            yield group, waits


def _compared(group: GroupMatch, waits: ByStart) -> tuple[int, int]:
    """Nanoseconds of waiting that either way claims, and those on which both agree."""
    longer = np.maximum(group.waiting, waits.waiting)
    claimed = longer > waits.error_ns
    agreed = claimed & (np.abs(group.waiting - waits.waiting) <= waits.error_ns)
    return int(longer[claimed].sum()), int(longer[agreed].sum())
