"""All ranks of a job replayed together, from their digests.

A rank works by itself and reaches its collectives at points of that work; a collective ends on all its ranks when the
last has come and the transfer is done; where a rank had nothing else to run, its work waits for that end. What a rank
waits for the others is no input, it follows. A collective that began as its stream's previous one ended was queued: it
was ready before, and the ranks that did not wait show when.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heappop, heappush
from typing import Literal

import numpy as np

from diagnose.arrays import Array, Floats, Ints
from diagnose.facts import Unknown, another_run
from diagnose.ranks.collectives.matching import GroupMatch, Match
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.replay.rank_work import NONE, Part, part_of

Case = Literal["worst", "best"]
PASSES = 3  # the first two bring the ranks into the rhythm that lasts
UNEQUAL_STEPS = Unknown("the ranks have no counted step in common", another_run("capture the same steps on every rank"))


@dataclass(frozen=True)
class Round:
    """Events of the ranks that come next, at most one for each rank, sorted by collective.

    `blocks` are the waits before them, one after the other: (place among the events, event waited for, own work).
    """

    events: Ints
    rank: Ints
    first: Ints
    of: Ints
    blocks: tuple[tuple[Ints, Ints, Floats], ...]


@dataclass(frozen=True)
class Joint:
    """The ranks and their collectives.

    Attributes:
        parts: one for each rank.
        collective: for each rank the collective of each of its events.
        transfer: nanoseconds of each collective once all have come.
        steps: number of steps in the parts.
        shared: the same parts in the order of replay, where that is known already.
    """

    parts: tuple[Part, ...]
    collective: tuple[Ints, ...]
    transfer: Floats
    steps: int
    shared: "Flat | None" = None

    @cached_property
    def measured_ns(self) -> Floats:
        """Mean step of each rank as measured."""
        return np.array([part.measured_ns for part in self.parts]) / self.steps

    @cached_property
    def strict_error(self) -> float:
        """Largest distance of a rank's replayed steps from its measured ones, of the measured ones.

        From the starts that the ranks had; where there are two steps or more also in the rhythm that lasts. Infinite
        where a rank's steps take no time.
        """
        if not self.measured_ns.min() > 0:
            return np.inf
        once = self._flat.replayed(self.transfer, "worst", self._start, 1) / self.steps
        apart = float(np.max(np.abs(once - self.measured_ns) / self.measured_ns))
        longest = float(self.measured_ns.max())
        return max(apart, abs(self.job_step_ns() - longest) / longest)

    def step_ns(self, case: Case = "worst") -> Floats:
        """Mean step of each rank when such steps follow each other, shape (ranks,); a single one from its start.

        Args:
            case: whether queued collectives are taken to be ready late or early.
        """
        start, passes = (self._start, 1) if self.steps == 1 else (np.zeros(len(self.parts)), PASSES)
        return self._flat.replayed(self.transfer, case, start, passes) / self.steps

    @property
    def _start(self) -> Floats:
        return np.array([part.start for part in self.parts])

    def job_step_ns(self, case: Case = "worst") -> float:
        """The step of the slowest rank."""
        return float(self.step_ns(case).max())

    def with_parts(self, parts: Mapping[int, Part]) -> "Joint":
        """Some ranks behave like others: another part at their positions."""
        return replace(self, parts=tuple(parts.get(p, own) for p, own in enumerate(self.parts)), shared=None)

    def with_ready(self) -> "Joint":
        """Queued collectives are ready when the ranks that did not queue show it."""
        ready = zip(self.parts, self._flat.ready(), strict=True)
        return replace(self, parts=tuple(replace(part, ready=own) for part, own in ready), shared=None)

    def with_transfer(self, transfer: Floats) -> "Joint":
        """Collectives that take other times."""
        return replace(self, transfer=transfer, shared=self._flat)

    @cached_property
    def _flat(self) -> "Flat":
        return self.shared or Flat(self)


class Flat:
    """The events of all ranks in one row, each rank's followed by one that ends its steps, and the order of replay."""

    def __init__(self, joint: Joint) -> None:
        counts = np.array([len(part.at) for part in joint.parts], np.int64)
        self.begin = np.concatenate(([0], np.cumsum(counts + 1)))
        self.finish = self.begin[1:] - 1
        parts = joint.parts
        self.rank = np.repeat(np.arange(len(parts)), counts + 1)
        ends = np.array([part.own_ns for part in parts])
        self.at = self._joined([part.at for part in parts], ends)
        self.late = self._joined([part.ready[0] for part in parts], ends)
        self.early = self._joined([part.ready[1] for part in parts], ends)
        self.lasted = self._joined([part.lasted for part in parts], 0)
        self.queued = self._joined([part.queued for part in parts], 0) > 0
        self.gap = self._joined([part.gap for part in parts], 0)
        previous = [np.where(p.previous >= 0, p.previous + b, NONE) for p, b in zip(parts, self.begin, strict=False)]
        self.previous = self._joined(previous, NONE).astype(np.int64)
        alone = len(joint.transfer) + np.arange(len(parts))
        self.collective = self._joined(joint.collective, alone).astype(np.int64)
        self.rounds = self._rounds(parts)

    def _joined(self, columns: Sequence[Array], last: Array | int) -> Floats:
        """The ranks' columns one after the other, each with the value of the event that ends its steps."""
        found, is_last = np.empty(len(self.rank)), np.zeros(len(self.rank), bool)
        is_last[self.finish] = True
        found[~is_last], found[is_last] = np.concatenate(columns), last
        return found

    def replayed(self, transfer: Floats, case: Case, start: Floats, passes: int) -> Floats:
        """Nanoseconds of all steps of each rank, shape (ranks,), in the last of so many passes from the start."""
        ready = self.early if case == "best" else self.late
        transfers = np.concatenate((transfer, np.zeros(len(self.finish))))
        clock = before = start
        for _ in range(passes):
            before, clock = clock, self._pass(clock, ready, transfers)
        return clock - before

    def _pass(self, clock: Floats, ready: Floats, transfer: Floats) -> Floats:
        """When each rank ends its steps, from when it begins them."""
        clock, position = clock.copy(), np.zeros(len(clock))
        end = np.zeros(len(self.at) + 1)
        end[-1] = -np.inf  # of the collective before a group's first
        for now in self.rounds:
            for place, on, at in now.blocks:
                ranks = now.rank[place]
                clock[ranks] = np.maximum(clock[ranks] + (at - position[ranks]), end[on])
                position[ranks] = at
            came = clock[now.rank] + (ready[now.events] - position[now.rank])
            came = np.maximum(came, end[self.previous[now.events]] + self.gap[now.events])
            last = np.maximum.reduceat(came, now.first)
            end[now.events] = (last + transfer[self.collective[now.events[now.first]]])[now.of]
        return np.asarray(end[self.finish])

    def _rounds(self, parts: Sequence[Part]) -> list[Round]:
        """The events in an order in which every collective finds all its ranks; all ranks have them in one order."""
        size = np.bincount(self.collective)
        head, blocks = self.begin[:-1].copy(), self._blocks(parts)
        found: list[Round] = []
        while len(events := head[head <= self.finish]):
            waiting = np.bincount(self.collective[events], minlength=len(size))
            events = events[waiting[self.collective[events]] == size[self.collective[events]]]
            events = events[np.argsort(self.collective[events], kind="stable")]
            _, first, of = np.unique(self.collective[events], return_index=True, return_inverse=True)
            found.append(Round(events, self.rank[events], first, of, _before(blocks, events)))
            head[self.rank[events]] += 1
        return found

    def _blocks(self, parts: Sequence[Part]) -> tuple[Ints, Ints, Floats]:
        """For every wait the event it comes before, the one whose end it waits for, and the own work until then."""
        before = [part.block_before + begin for part, begin in zip(parts, self.begin, strict=False)]
        on = [part.block_on + begin for part, begin in zip(parts, self.begin, strict=False)]
        return np.concatenate(before), np.concatenate(on), np.concatenate([part.block_at for part in parts])

    def ready(self) -> tuple[Floats, ...]:
        """For each rank the own work after which each of its events was ready, at the latest and at the earliest.

        A queued one was ready as long after its stream's previous one as on the rank that came last and so did not
        wait; at the earliest as long after as on a rank that did not queue. Where all did, that is at once for the
        first: of two in a row nobody can say it of both.
        """
        late, early = np.append(self.at, 0.0), np.append(self.at, 0.0)
        everywhere = np.zeros(len(late), bool)
        for now in self.rounds:
            events, previous = now.events, self.previous[now.events]
            queued, lasted = self.queued[events], self.lasted[events]
            came_last = lasted == np.minimum.reduceat(lasted, now.first)[now.of]
            everywhere[events] = np.logical_and.reduceat(queued, now.first)[now.of]
            known = np.where(everywhere[events], came_last, ~queued)
            at_once = everywhere[events] & ~everywhere[previous]
            for ready, shows, since in ((late, came_last, 1.0), (early, known, np.where(at_once, 0.0, 1.0))):
                after = np.where(shows, np.maximum(self.at[events] - ready[previous], 0), np.inf)
                soonest = ready[previous] + since * np.minimum.reduceat(after, now.first)[now.of]
                ready[events] = np.where(queued, np.minimum(soonest, self.at[events]), self.at[events])
        both = np.stack((late, early))
        return tuple(both[:, b:f] for b, f in zip(self.begin[:-1].tolist(), self.finish.tolist(), strict=True))


def _before(blocks: tuple[Ints, Ints, Floats], events: Ints) -> tuple[tuple[Ints, Ints, Floats], ...]:
    """The waits before the events; those of one event one after the other."""
    before, on, at = blocks
    ordered = np.sort(events)
    low, high = np.searchsorted(before, ordered, "left"), np.searchsorted(before, ordered, "right")
    place = np.argsort(events, kind="stable")
    found = []
    for turn in range(int((high - low).max(initial=0))):
        which = high - low > turn
        rows = low[which] + turn
        found.append((place[which], on[rows], at[rows]))
    return tuple(found)


def joint_of(ranks: Sequence[RankDigest], found: Match) -> Joint | Unknown:
    """The joint replay of the steps that all ranks have, or why there is none."""
    numbers = sorted(set.intersection(*(set(rank.numbers) for rank in ranks)))
    if not numbers:
        return UNEQUAL_STEPS
    rows = [np.flatnonzero(np.isin(rank.calls.step, numbers)) for rank in ranks]
    of, transfer = _collectives(ranks, rows, found)
    ahead = _ahead(len(ranks), found)
    order = _order(ranks, rows, of, ahead)
    rows, of = ([own[o] for own, o in zip(columns, order, strict=True)] for columns in (rows, of))
    parts = tuple(part_of(*own, numbers) for own in zip(ranks, rows, ahead.tolist(), strict=True))
    for part, own in zip(parts, of, strict=True):
        np.minimum.at(transfer, own, part.lasted)
    return Joint(parts, tuple(of), transfer, len(numbers)).with_ready()


def _order(ranks: Sequence[RankDigest], rows: Sequence[Ints], of: Sequence[Ints], ahead: Floats) -> list[Ints]:
    """Each rank's calls in the order in which the collectives begin, by the mean over their ranks.

    Streams of their own may begin in another order on some rank; the replay needs one for all.
    """
    start = [rank.calls.start[own] - early for rank, own, early in zip(ranks, rows, ahead.tolist(), strict=True)]
    every = np.concatenate(of)
    first = min((float(own[0]) for own in start if len(own)), default=0.0)
    sums = np.bincount(every, np.concatenate(start) - first)
    mean = sums / np.maximum(np.bincount(every), 1)
    return [np.lexsort((own, mean[own])) for own in of]


def _collectives(ranks: Sequence[RankDigest], rows: Sequence[Ints], found: Match) -> tuple[list[Ints], Floats]:
    """The collective of each rank's events and the transfer of each; one that did not match is its rank's own."""
    place = [_places(len(rank.calls), own) for rank, own in zip(ranks, rows, strict=True)]
    of = [np.full(len(own), NONE, np.int64) for own in rows]
    transfer: list[float] = []
    for group in found:
        members = group.members.tolist()
        events = np.stack([place[p][group.call[:, m]] for m, p in enumerate(members)], axis=1)
        whole = (events >= 0).all(axis=1)
        numbers = len(transfer) + np.arange(int(whole.sum()))
        for m, p in enumerate(members):
            of[p][events[whole, m]] = numbers
        transfer.extend(group.transfer[whole].tolist())
    for p, rank in enumerate(ranks):
        alone = np.flatnonzero(of[p] == NONE)
        of[p][alone] = len(transfer) + np.arange(len(alone))
        transfer.extend((rank.calls.end - rank.calls.start)[rows[p][alone]].tolist())
    return of, np.array(transfer, np.float64)


def _connected(count: int, found: Match) -> Iterator[GroupMatch]:
    """The groups, each as the first that shares a rank with those before it; where none does, the first left."""
    of_rank: list[list[int]] = [[] for _ in range(count)]
    for number, group in enumerate(found):
        for member in group.members.tolist():
            of_rank[member].append(number)
    given, near = [False] * len(found), list[int]()
    for first in range(len(found)):
        heappush(near, first)
        while near:
            number = heappop(near)
            if given[number]:
                continue
            given[number] = True
            yield found[number]
            for member in found[number].members.tolist():
                for other in of_rank[member]:
                    heappush(near, other)
                of_rank[member] = []


def _places(count: int, rows: Ints) -> Ints:
    found = np.full(count, NONE, np.int64)
    found[rows] = np.arange(len(rows))
    return found


def _ahead(count: int, found: Match) -> Floats:
    """By how much each rank's clock is ahead of that of the first rank it is connected with by collectives."""
    ahead, known = np.zeros(count), np.zeros(count, bool)
    for group in _connected(count, found):
        at = int(np.argmax(known[group.members]))
        own = np.median(group.end - group.end[:, [at]], axis=0) + ahead[group.members[at]]
        new = ~known[group.members]
        ahead[group.members[new]] = own[new]
        known[group.members] = True
    return ahead
