"""Lateness of each rank at a collective, by its own doing or by its communication. Needs no clocks."""

from collections.abc import Sequence
from functools import cached_property

import msgspec
import numpy as np

from diagnose.arrays import Ints, Mask
from diagnose.attribution.causes import class_of
from diagnose.ranks.collectives.matching import GroupMatch, Match
from diagnose.ranks.digest import RankDigest

COMMUNICATION = "communication"
NOBODY = -1
FEWEST = 3
APART_SHARE = 0.05  # of a step: ranks that begin the first one so far apart were delayed before it
_TO_ONE = "sendrecv"


class GroupExcess(msgspec.Struct, frozen=True):
    """The time of a group's members until they reached each collective, above the median of the other members.

    It is counted on each rank's own clock from the end of the group's last collective of an earlier step, at which all
    were together; without one, from the beginning of that step on each rank.

    Attributes:
        step: number of each collective's step, in order: a collective that another stream delays into the next step
            counts there.
        causes: causes of any member's attribution.
        ns: shape (instances, members, causes); negative if a member spent less.
        began_later_ns: how much later than the median of the others a member began the counted time, shape (instances,
            members): that delay is not in `ns`. 0 if all were together.
    """

    step: Ints
    causes: tuple[str, ...]
    ns: Ints
    began_later_ns: Ints

    @property
    def communicates(self) -> Mask:
        """Mask of the causes that are communication."""
        return _communicates(self.causes)

    @property
    def own_ns(self) -> Ints:
        """Excess of time that the rank itself is the reason for, shape (instances, members)."""
        return self.ns[..., ~self.communicates].sum(axis=-1)

    @property
    def passed_on(self) -> Ints:
        """Excess of communication: what the rank waited for others, or for its links."""
        return self.ns[..., self.communicates].sum(axis=-1)


class Lateness(msgspec.Struct, frozen=True, dict=True):
    """The time that each rank is behind the others in each step, by its own doing or by that of others.

    For each rank, the group in which it is furthest behind by its own doing counts.

    Attributes:
        numbers: numbers of the steps in which collectives were matched. The first of three or more is left out if ranks
            begin it apart, as they always do with host steps: a step's beginning is delayed at the end of the step
            before.
        causes: causes of any rank's attribution.
        ns: shape (ranks, steps, causes), above the median of the other members.
        group: place of the group in the match, shape (ranks, steps); NOBODY without one.
        compared: for each group of the match, whether its ranks are compared with each other.
    """

    numbers: tuple[int, ...]
    causes: tuple[str, ...]
    ns: Ints
    group: Ints
    compared: tuple[bool, ...] = ()

    @property
    def own_ns(self) -> Ints:
        """Nanoseconds by its own doing, shape (ranks, steps)."""
        return self.ns[..., ~_communicates(self.causes)].sum(axis=-1)

    def at(self, steps: Ints) -> Ints:
        """Positions of steps by their numbers."""
        return np.searchsorted(self._numbers, steps)

    def judges(self, steps: Ints) -> Mask:
        """Mask of the steps, given by number, that are judged."""
        at = np.minimum(self.at(steps), len(self._numbers) - 1)
        return np.asarray(self._numbers[at] == steps) if len(self._numbers) else np.zeros(len(steps), bool)

    @cached_property
    def _numbers(self) -> Ints:
        return np.array(self.numbers, np.int64)


def excess_of(ranks: Sequence[RankDigest], group: GroupMatch) -> GroupExcess:
    """The time of each member of a group until each collective, above the median of the others."""
    causes = _causes([ranks[p] for p in group.members.tolist()])
    step = np.maximum.accumulate(ranks[int(group.members[0])].calls.step[group.call[:, 0]])
    before = np.searchsorted(step, step, side="left") - 1
    spent = np.zeros((*group.call.shape, len(causes)), np.int64)
    for m, p in enumerate(group.members.tolist()):
        columns = [causes.index(c) for c in ranks[p].causes]
        reached, left = ranks[p].spent[group.call[:, m]].transpose(1, 0, 2)
        spent[:, m, columns] = reached - np.where((before >= 0)[:, None], left[before], _by_the_step(ranks[p], step))
    return GroupExcess(step, causes, spent - median_of_others(spent), _began_later(ranks, group, step))


def _by_the_step(rank: RankDigest, step: Ints) -> Ints:
    """Nanoseconds by cause that the rank has spent on its counted steps before each of these, shape (steps, causes)."""
    spent = np.cumsum(np.concatenate((np.zeros((1, len(rank.causes)), np.int64), rank.cause_ns)), axis=0)
    return np.asarray(spent[np.searchsorted(rank.numbers, step, side="left")])


def _began_later(ranks: Sequence[RankDigest], group: GroupMatch, step: Ints) -> Ints:
    """How much later each member began the step of the first collective, which has none before it.

    All leave the collective together, so a member that was in the step for a shorter time began it later. It is 0 if a
    rank does not count the step.
    """
    later = np.zeros(group.call.shape, np.int64)
    if len(step) and not group.paired:
        members = [ranks[p] for p in group.members.tolist()]
        if not all(step[0] in rank.numbers for rank in members):
            return later
        begin = np.array([rank.windows[rank.numbers.index(step[0]), 0] for rank in members], np.int64)
        lasted = (group.end[0] - begin)[None, :]
        later[0] = (median_of_others(lasted) - lasted)[0]
    return later


def _causes(ranks: Sequence[RankDigest]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(cause for rank in ranks for cause in rank.causes))


def _communicates(causes: Sequence[str]) -> Mask:
    return np.array([class_of(cause) == COMMUNICATION for cause in causes], bool)


def median_of_others(values: Ints) -> Ints:
    """For each entry along axis 1, the median of the other entries.

    One sort is enough: without the entry at a place, the sorted others are those before it, and those after it moved up
    by one.
    """
    count, order = values.shape[1], np.sort(values, axis=1)
    place = np.argsort(np.argsort(values, axis=1, kind="stable"), axis=1)

    def left_over(at: int) -> Ints:
        return np.where(place <= at, order[:, at + 1 : at + 2], order[:, at : at + 1])

    return (left_over((count - 2) // 2) + left_over((count - 1) // 2)) // 2


def is_point_to_point(ranks: Sequence[RankDigest], group: GroupMatch) -> bool:
    """Whether the group's operations are messages of one rank to another: the stages of a pipeline wait by design.

    An all-to-all of all ranks carries the same name in old traces.
    """
    calls, members = ranks[int(group.members[0])].calls, len(group.members)
    kinds = {calls.kinds[k] for k in calls.kind[group.call[:, 0]].tolist()}
    return kinds == {_TO_ONE} and (members == 2 or members < len(ranks))


def lateness_of(
    ranks: Sequence[RankDigest], matched: Match, excess: Sequence[GroupExcess], compared: Sequence[bool] | None = None
) -> Lateness:
    """The time that each rank is behind at the last collective of each step.

    Args:
        ranks: ranks of the job.
        matched: their collectives by group.
        excess: excess of each group.
        compared: the groups whose ranks are compared; all that send no messages unless given.
    """
    if compared is None:
        compared = [not is_point_to_point(ranks, group) for group in matched]
    causes = _causes(ranks)
    of_groups = [(at, excess[at]) for at, is_compared in enumerate(compared) if is_compared]
    numbers = _judged_steps(ranks, [group_excess for _, group_excess in of_groups])
    shape = (len(ranks), max(len(numbers), 1))
    ns, group = np.zeros((*shape, len(causes)), np.int64), np.full(shape, NOBODY)
    lateness = Lateness(numbers, causes, ns, group, tuple(compared))
    for at, group_excess in of_groups:
        _further(lateness, at, matched[at], group_excess)
    return lateness


def _judged_steps(ranks: Sequence[RankDigest], excess: Sequence[GroupExcess]) -> tuple[int, ...]:
    """The steps that can be judged: a step that no two ranks share does not show who is late in it."""
    shared = {number for group_excess in excess for number in group_excess.step.tolist()}
    numbers = tuple(sorted(shared or {number for rank in ranks for number in rank.numbers}))
    on_host = not all(rank.has_gpu for rank in ranks)
    if len(numbers) >= FEWEST and (on_host or _begins_apart(ranks, excess, numbers[0])):
        return numbers[1:]
    return numbers


def _begins_apart(ranks: Sequence[RankDigest], excess: Sequence[GroupExcess], number: int) -> bool:
    """Whether ranks of a group begin the step far apart."""
    later = max((int(e.began_later_ns[e.step == number].max(initial=0)) for e in excess), default=0)
    steps = sum(rank.steps for rank in ranks)
    return later * steps >= APART_SHARE * sum(rank.total_ns for rank in ranks)


def _further(lateness: Lateness, number: int, group: GroupMatch, excess: GroupExcess) -> None:
    """Copy a group's lateness for the ranks and steps in which they are further behind in it than in other groups.

    Only their own doing counts: of two ranks, the punctual one would otherwise seem as far ahead as the other is
    behind.
    """
    last = np.flatnonzero(np.append(excess.step[1:] != excess.step[:-1], True) & lateness.judges(excess.step))
    place = np.ix_(group.members, lateness.at(excess.step[last]))
    ns = np.zeros((len(group.members), len(last), len(lateness.causes)), np.int64)
    ns[..., [lateness.causes.index(c) for c in excess.causes]] = excess.ns[last].transpose(1, 0, 2)
    by_itself = ~_communicates(lateness.causes)
    more = ns[..., by_itself].sum(axis=-1) > lateness.ns[place][..., by_itself].sum(axis=-1)
    further = (lateness.group[place] == NOBODY) | more
    lateness.ns[place] = np.where(further[..., None], ns, lateness.ns[place])
    lateness.group[place] = np.where(further, number, lateness.group[place])
