"""The waits inside collectives: who waits for whom, when, and what the late rank did meanwhile.

A rank that comes late because it waited for another one elsewhere, as tensor-parallel ranks do inside data-parallel
groups, is a messenger: its own time is like the others', its communication is not. Waiting for it counts for the rank
at the beginning of the chain. The stages of a pipeline wait for each other by design, which counts for nobody.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from diagnose import intervals as iv
from diagnose.arrays import Ints, Mask
from diagnose.attribution.causes import BEGINNING, class_of
from diagnose.formulas import share
from diagnose.ranks.collectives.matching import Match
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.replay.rank_work import stopped
from diagnose.ranks.stragglers.lateness import COMMUNICATION, NOBODY, GroupExcess, Lateness, is_point_to_point

LONGEST_CHAIN = 16


class WaitedFor(msgspec.Struct, frozen=True):
    """For each collective of a group, the position in the job of the rank that is waited for, and the reason.

    `class_` is the class of the reason, or BEGINNING. `late` is NOBODY if that rank itself waited for an unknown one.
    """

    late: Ints
    class_: tuple[str, ...]


class RankWaits(msgspec.Struct, frozen=True):
    """The instants at which one rank waits inside collectives, disjoint and in order; columns of equal length.

    Attributes:
        start: nanoseconds of the rank's own clock, as `end`.
        late: position in the job of the rank that is waited for, or NOBODY.
        class_: index of `classes`: the class of what made that rank late, or BEGINNING.
        exposed_ns: the part of the time in which nothing else runs.
        step: number of the step that it begins in.
    """

    start: Ints
    end: Ints
    late: Ints
    class_: Ints
    exposed_ns: Ints
    step: Ints
    classes: tuple[str, ...]

    def pieces(self, class_: str) -> iv.Intervals:
        """The instants of waiting for ranks that are late by causes of a class."""
        if class_ not in self.classes:
            return iv.EMPTY
        chosen = self.class_ == self.classes.index(class_)
        return iv.intervals(self.start[chosen], self.end[chosen])


def waited_for(
    ranks: Sequence[RankDigest],
    matched: Match,
    excess: Sequence[GroupExcess],
    lateness: Lateness,
    by_link: Mapping[int, int] | None = None,
) -> list[WaitedFor]:
    """The rank that is waited for in each collective: the last to come, or the one that it waited for itself.

    Args:
        ranks: ranks of the job.
        matched: their collectives by group.
        excess: excess of each group.
        lateness: how far each rank is behind in each step.
        by_link: positions of ranks whose own links are slow, with the cost to them in each step: so much of their
            communication is their own delay, and what is beyond it they pass on.
    """
    chain = _Chain(ranks, matched, excess, lateness, by_link or {})
    parts = [
        WaitedFor(group.members[group.last], _main_classes(group_excess, group.last))
        for group, group_excess in zip(matched, excess, strict=True)
    ]
    return [_traced_back(chain, number, parts) for number in range(len(parts))]


def _traced_back(chain: "_Chain", number: int, parts: Sequence[WaitedFor]) -> WaitedFor:
    """The waits of a group, with each messenger replaced by the rank at the beginning of its chain."""
    late, classes = parts[number].late.copy(), list(parts[number].class_)
    for instance in np.flatnonzero(chain.messengers[number]).tolist():
        origin = chain.origin(number, instance)
        late[instance] = NOBODY if origin is None else parts[origin[0]].late[origin[1]]
        classes[instance] = COMMUNICATION if origin is None else parts[origin[0]].class_[origin[1]]
    return replace(parts[number], late=late, class_=tuple(classes))


def _main_classes(excess: GroupExcess, last: Ints) -> tuple[str, ...]:
    """For each collective, the class in which the last rank has most excess, or communication if that exceeds its own.

    It is BEGINNING if the rank began the step later by more than its own excess: that delay comes from before the
    capture.
    """
    classes = [class_of(cause) for cause in excess.causes]
    names = tuple(dict.fromkeys(classes))
    at = np.arange(len(last))
    more = np.maximum(excess.ns[at, last], 0)
    more[:, excess.communicates] = 0
    sums = np.stack([more[:, [c == name for c in classes]].sum(axis=1) for name in names], axis=1)
    own_ns = more.sum(axis=1)
    earlier = excess.began_later_ns[at, last] > own_ns
    by_communication = np.maximum(excess.passed_on[at, last], 0) >= own_ns
    each = zip(sums.argmax(axis=1).tolist(), earlier.tolist(), by_communication.tolist(), strict=True)
    return tuple(
        BEGINNING if before else COMMUNICATION if passed_on else names[best] for best, before, passed_on in each
    )


class _Chain:
    """Find the rank that the last rank of a collective itself waited for, in an earlier collective of the same step."""

    def __init__(
        self,
        ranks: Sequence[RankDigest],
        matched: Match,
        excess: Sequence[GroupExcess],
        lateness: Lateness,
        by_link: Mapping[int, int],
    ) -> None:
        self._ranks, self._matched, self._excess, self._lateness = ranks, matched, excess, lateness
        self._relays = np.array([len(rank.calls.groups) > 1 for rank in ranks], bool)
        self._by_link = np.array([by_link.get(p, 0) for p in range(len(ranks))], np.int64)
        self.messengers = [self._is_messenger(number) for number in range(len(matched))]
        self._of: list[list[tuple[int, int]]] = [[] for _ in ranks]
        for number, group in enumerate(matched):
            for m, p in enumerate(group.members.tolist()):
                self._of[p].append((number, m))

    def _is_messenger(self, number: int) -> Mask:
        """Mask of a group's collectives whose last rank is behind by its communication more than by its own doing.

        For messages, those whose sender's own lateness is less than half of the waiting for it.
        """
        group, excess = self._matched[number], self._excess[number]
        late, at = group.members[group.last], np.arange(len(group.call))
        if is_point_to_point(self._ranks, group):
            steps = np.minimum(self._lateness.at(excess.step), len(self._lateness.numbers) - 1)
            own_ns = self._lateness.own_ns[late, steps]
            return np.asarray(2 * own_ns < group.waiting.max(axis=1))
        own_ns = np.maximum(excess.own_ns[at, group.last], 0) + self._by_link[late]
        passed_on = excess.passed_on[at, group.last] - self._by_link[late]
        return self._relays[late] & (passed_on > own_ns)

    def origin(self, number: int, instance: int) -> tuple[int, int] | None:
        """Group and instance at the beginning of the chain; None if the chain is lost."""
        for _ in range(LONGEST_CHAIN):
            place = self._longest_wait(number, instance)
            if place is None or not self.messengers[place[0]][place[1]]:
                return place
            number, instance = place
        return None

    def _longest_wait(self, number: int, instance: int) -> tuple[int, int] | None:
        """The collective of another group in which the last rank waited longest before, in the same step."""
        group, step = self._matched[number], self._excess[number].step[instance]
        last = int(group.last[instance])
        until, best, longest = group.start[instance, last], 0, None
        for other, m in self._of[int(group.members[last])]:
            if other == number:
                continue
            theirs = self._matched[other]
            first, end = np.searchsorted(self._excess[other].step, (step, step + 1))
            waiting = np.where(theirs.end[first:end, m] <= until, theirs.waiting[first:end, m], 0)
            if len(waiting) and waiting.max() > best:
                best, longest = int(waiting.max()), (other, first + int(waiting.argmax()))
        return longest


def waits_of(ranks: Sequence[RankDigest], matched: Match, late_ranks: Sequence[WaitedFor]) -> tuple[RankWaits, ...]:
    """The waiting of each rank; where collectives overlap, the time belongs to the one that began first.

    Waiting ends when the last rank has come, or when that rank waits for the transfer, too: other work that it still
    does during the collective delays the others, whose own work had ended, and a transfer of zero time would not help.

    Args:
        ranks: ranks of the job.
        matched: their collectives by group.
        late_ranks: the result of `waited_for`.
    """
    classes = tuple(sorted({class_ for entry in late_ranks for class_ in entry.class_}))
    parts: list[list[Ints]] = [[np.zeros((0, 4), np.int64)] for _ in ranks]
    for group, entry, waiting in zip(matched, late_ranks, held_up_ns(ranks, matched), strict=True):
        about = np.stack((entry.late, np.array([classes.index(c) for c in entry.class_], np.int64)), axis=1)
        for m, p in enumerate(group.members.tolist()):
            times = np.stack((group.start[:, m], group.start[:, m] + waiting[:, m]), axis=1)
            parts[p].append(np.concatenate((times, about), axis=1)[waiting[:, m] > 0])
    return tuple(_waits(rank, np.concatenate(pieces), classes) for rank, pieces in zip(ranks, parts, strict=True))


def held_up_ns(ranks: Sequence[RankDigest], matched: Match) -> list[Ints]:
    """For each group, nanoseconds that each rank waits for the last one, shape (instances, members).

    That is the time until the last rank comes, and the time in which that rank does other work instead of waiting for
    the transfer. For messages, and without a GPU, only the time until it comes counts: a stage waits for the transfer
    whatever the sender does meanwhile, and a host that works looks like one that waits.
    """
    held = [group.waiting.copy() for group in matched]
    came_last: dict[int, list[tuple[int, int]]] = {}
    for number, group in enumerate(matched):
        members = group.members.tolist()
        if not is_point_to_point(ranks, group) and all(ranks[p].has_gpu for p in members):
            for m, p in enumerate(members):
                came_last.setdefault(p, []).append((number, m))
    for p, places in came_last.items():
        for (number, m), beside in zip(places, _beside_ns(ranks[p], matched, places), strict=True):
            last = matched[number].last == m
            others = np.arange(held[number].shape[1]) != m
            held[number][np.ix_(last, others)] += beside[:, None]
    return held


def _beside_ns(rank: RankDigest, matched: Match, places: Sequence[tuple[int, int]]) -> list[Ints]:
    """For each place (a group and the rank's column in it), the time that the rank does other work inside the
    collectives to which it came last, shape (those collectives,).
    """
    lasts = [matched[number].last == m for number, m in places]
    start = [matched[number].start[last, m] for (number, m), last in zip(places, lasts, strict=True)]
    end = [matched[number].end[last, m] for (number, m), last in zip(places, lasts, strict=True)]
    stops, _ = stopped(rank, rank.calls.start, rank.calls.end, rank.windows)
    stopped_ns = iv.coverages(stops, start, end)
    return [np.maximum(until - since - ns, 0) for since, until, ns in zip(start, end, stopped_ns, strict=True)]


def _waits(rank: RankDigest, rows: Ints, classes: tuple[str, ...]) -> RankWaits:
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    start, end = iv.exclusive(rows[:, 0], rows[:, 1])
    step = np.searchsorted(rank.windows[:, 0], start, side="right") - 1
    numbers = np.array(rank.numbers, np.int64)
    return RankWaits(
        start=start,
        end=end,
        late=rows[:, 2],
        class_=rows[:, 3],
        exposed_ns=iv.coverage(rank.exposed, start, end),
        step=numbers[np.maximum(step, 0)] if len(numbers) else start,
        classes=classes,
    )


def waiting_caused(waits: Sequence[RankWaits], lateness: Lateness) -> Ints:
    """Exposed nanoseconds that the others wait for each rank in each step of the job, shape (ranks, steps)."""
    caused = np.zeros(lateness.ns.shape[:2], np.int64)
    for position, rank_waits in enumerate(waits):
        other = (rank_waits.late != position) & (rank_waits.late != NOBODY) & lateness.judges(rank_waits.step)
        np.add.at(caused, (rank_waits.late[other], lateness.at(rank_waits.step[other])), rank_waits.exposed_ns[other])
    return caused


def waiting_share(ranks: Sequence[RankDigest], waits: Sequence[RankWaits], late: Collection[int]) -> float:
    """Exposed waiting of the other ranks for those at the positions `late`, of the other ranks' steps."""
    others = [p for p in range(len(ranks)) if p not in late]
    waited = sum(int(waits[p].exposed_ns[np.isin(waits[p].late, list(late))].sum()) for p in others)
    return share(waited, sum(ranks[p].total_ns for p in others)) or 0.0
