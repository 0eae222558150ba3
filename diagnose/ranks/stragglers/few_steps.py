"""Find late ranks with too few steps for a test: how far apart a rank is, in how many collectives it is the slowest.

Both require a large effect: a single step may show a long batch or a pause, which every rank has at times.
"""

import itertools
from collections.abc import Sequence

import msgspec
import numpy as np

from diagnose.arrays import Ints, Mask
from diagnose.attribution.causes import class_of
from diagnose.formulas.statistics import binomial_tail
from diagnose.ranks.collectives.matching import GroupMatch, Match
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.stragglers.lateness import COMMUNICATION, Lateness

APART_SHARE = 0.25  # of the step, by which every step of a late rank is longer than any of the others
APART = 2.0  # times the range of the others' steps; ranks whose steps spread by 20 % are so far apart in 1.6 % of jobs
CLEAR_SHARE = 0.4  # of a single step: of two ranks whose steps spread by 10 % one leads by it in 0.5 % of jobs
CHANCE = 0.01  # that the slowest in so many collectives is so by chance


class Slowest(msgspec.Struct, frozen=True):
    """Collectives before which a rank alone worked longest, by more than noise, of those before which any rank did."""

    at: int = 0
    of: int = 0

    def chance(self, members: int) -> float:
        """How likely one of so many equal ranks is the slowest so often, by the binomial distribution, times the
        number of ranks, any of which would have been named.
        """
        return min(members * binomial_tail(self.at, self.of, 1 / members), 1.0)

    def is_no_chance(self, members: int) -> bool:
        """Whether it is the slowest more often than chance makes one of so many."""
        return members > 1 and self.chance(members) <= CHANCE


NEVER = Slowest()


def own_steps(rank: RankDigest) -> Ints:
    """Nanoseconds of each counted step without communication, which includes waiting."""
    return np.asarray(rank.cause_ns[:, _own(rank)].sum(axis=1))


def _own(rank: RankDigest) -> Mask:
    return np.array([class_of(cause) != COMMUNICATION for cause in rank.causes], bool)


def slowest_of(ranks: Sequence[RankDigest], matched: Match, lateness: Lateness, least_ns: Ints) -> tuple[Slowest, ...]:
    """For each rank, how often it is the slowest, in the one of its groups with most collectives to judge by.

    It compares the work between two collectives, so that a delay counts once, however many collectives it affects.
    Without a GPU nothing counts: the host's scheduler delays several in a row.

    Args:
        ranks: ranks of the job.
        matched: their collectives by group.
        lateness: lateness, whose steps are judged.
        least_ns: lag in each of these steps that is still noise.
    """
    found = [NEVER] * len(ranks)
    if not all(rank.has_gpu for rank in ranks):
        return tuple(found)
    for group in itertools.compress(matched, lateness.compared):
        slowest = _slowest(ranks, group, lateness, least_ns)
        for place, position in enumerate(group.members.tolist()):
            if len(slowest) > found[position].of:
                found[position] = Slowest(int((slowest == place).sum()), len(slowest))
    return tuple(found)


def _slowest(ranks: Sequence[RankDigest], group: GroupMatch, lateness: Lateness, least_ns: Ints) -> Ints:
    """Place in the group of the slowest member, for each collective before which one leads by more than noise.

    The noise of a step is shared out evenly to its collectives.
    """
    step = ranks[int(group.members[0])].calls.step[group.call[:, 0]]
    reached = np.stack(
        [ranks[p].spent[group.call[:, m], 0][:, _own(ranks[p])].sum(axis=1) for m, p in enumerate(group.members)],
        axis=1,
    )
    judged = lateness.judges(step)
    worked = np.diff(reached, axis=0, prepend=0)[judged]
    at = lateness.at(step[judged])
    leads = np.sort(worked, axis=1)
    lead = leads[:, -1] - leads[:, -2]
    telling = lead * np.bincount(at, minlength=len(least_ns))[at] > least_ns[at]
    return np.asarray(worked.argmax(axis=1)[telling])


def is_apart(own: Ints, others: Sequence[Ints], step_ns: float) -> bool:
    """Whether each of two or more steps is longer than all steps of all other ranks, by far more than these differ."""
    if len(own) < 2 or not others:
        return False
    rest = np.concatenate(others)
    gap = float(own.min() - rest.max())
    return gap >= max(APART * float(rest.max() - rest.min()), APART_SHARE * step_ns)
