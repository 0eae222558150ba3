"""Transfer and waiting by start times on aligned clocks, compared with those by durations, which need no clocks.

The breakdown uses durations; the two differ if ranks do not end a collective together.
"""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from diagnose.arrays import Ints
from diagnose.formulas import share
from diagnose.formulas.collectives import transfer_by_start, waiting_by_start
from diagnose.ranks.collectives.clocks import Alignment, bases_of
from diagnose.ranks.collectives.matching import GroupMatch, Match
from diagnose.ranks.digest import RankDigest

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
