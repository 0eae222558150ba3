"""The collectives of all ranks in an order in which they can be replayed, and the replay of that order.

Every time in it is a maximum of sums: a rank comes at what it did before plus its own work, and a collective ends when
the last rank has come plus the transfer. Such a max-plus system is solved by one sweep in any order that respects the
dependencies. A round takes the next collective of every rank, if all of its ranks have come to it. All ranks have their
collectives in one order, so the first of those left is always complete and no round is empty. Swept again from its end
state, the system settles into the rhythm of its slowest circle (Baccelli et al., Synchronization and Linearity, 1992):
the mean step of steps that follow each other.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from diagnose.arrays import Array, Floats, Ints
from diagnose.ranks.replay.rank_work import NONE, RankWork

Case = Literal["worst", "best"]
RankWaits = tuple[Ints, Ints, Floats]


class Round(msgspec.Struct, frozen=True):
    """The next events of some ranks, at most one for each rank, sorted by collective.

    Attributes:
        events: numbers in `JobEvents`, shape (events,).
        rank: the rank of each.
        first: place of each collective's first event, shape (collectives,).
        of: which of the collectives each event belongs to, shape (events,).
        waits: the waits before the events, one after the other: (place among the events, event that is waited for, own
            work done until then).
    """

    events: Ints
    rank: Ints
    first: Ints
    of: Ints
    waits: tuple[RankWaits, ...]


class JobEvents:
    """The events of all ranks in one row, each rank's followed by one that ends its steps, and their rounds.

    Args:
        ranks: the work of each rank.
        collective: for each rank the collective of each of its events.
        collectives: how many there are.
    """

    def __init__(self, ranks: Sequence[RankWork], collective: Sequence[Ints], collectives: int) -> None:
        counts = np.array([len(work.at) for work in ranks], np.int64)
        self.begin = np.concatenate(([0], np.cumsum(counts + 1)))
        self.finish = self.begin[1:] - 1
        self.rank = np.repeat(np.arange(len(ranks)), counts + 1)
        ends = np.array([work.own_ns for work in ranks])
        self.at = self._joined([work.at for work in ranks], ends)
        self.late = self._joined([work.ready[0] for work in ranks], ends)
        self.early = self._joined([work.ready[1] for work in ranks], ends)
        self.lasted = self._joined([work.lasted for work in ranks], 0)
        self.queued = self._joined([work.queued for work in ranks], 0) > 0
        self.gap = self._joined([work.gap for work in ranks], 0)
        previous = [np.where(w.previous >= 0, w.previous + b, NONE) for w, b in zip(ranks, self.begin, strict=False)]
        self.previous = self._joined(previous, NONE).astype(np.int64)
        alone = collectives + np.arange(len(ranks))
        self.collective = self._joined(collective, alone).astype(np.int64)
        self.rounds = self._rounds(ranks)

    def _joined(self, columns: Sequence[Array], last: Array | int) -> Floats:
        """The ranks' columns one after the other, each with the value of the event that ends its steps."""
        row, is_last = np.empty(len(self.rank)), np.zeros(len(self.rank), bool)
        is_last[self.finish] = True
        row[~is_last], row[is_last] = np.concatenate(columns), last
        return row

    def replayed(self, transfer: Floats, case: Case, start: Floats, passes: int) -> Floats:
        """Nanoseconds of all steps of each rank, shape (ranks,), in the last of so many passes from the start."""
        ready = self.early if case == "best" else self.late
        transfers = np.concatenate((transfer, np.zeros(len(self.finish))))
        clock = before = start
        for _ in range(passes):
            before, clock = clock, self._pass(clock, ready, transfers)
        return clock - before

    def _pass(self, clock: Floats, ready: Floats, transfer: Floats) -> Floats:
        """The end times of the ranks' steps, from their begin times."""
        clock, worked = clock.copy(), np.zeros(len(clock))
        end = np.zeros(len(self.at) + 1)
        end[-1] = -np.inf  # of the collective before a group's first
        for now in self.rounds:
            for place, on, at in now.waits:
                ranks = now.rank[place]
                clock[ranks] = np.maximum(clock[ranks] + (at - worked[ranks]), end[on])
                worked[ranks] = at
            came = clock[now.rank] + (ready[now.events] - worked[now.rank])
            came = np.maximum(came, end[self.previous[now.events]] + self.gap[now.events])
            last = np.maximum.reduceat(came, now.first)
            end[now.events] = (last + transfer[self.collective[now.events[now.first]]])[now.of]
        return np.asarray(end[self.finish])

    def _rounds(self, ranks: Sequence[RankWork]) -> list[Round]:
        """The events in rounds, of which each takes every collective that all its ranks have come to."""
        size = np.bincount(self.collective)
        head, waits = self.begin[:-1].copy(), self._waits(ranks)
        rounds: list[Round] = []
        while len(events := head[head <= self.finish]):
            waiting = np.bincount(self.collective[events], minlength=len(size))
            events = events[waiting[self.collective[events]] == size[self.collective[events]]]
            events = events[np.argsort(self.collective[events], kind="stable")]
            _, first, of = np.unique(self.collective[events], return_index=True, return_inverse=True)
            rounds.append(Round(events, self.rank[events], first, of, _before(waits, events)))
            head[self.rank[events]] += 1
        return rounds

    def _waits(self, ranks: Sequence[RankWork]) -> RankWaits:
        """For every wait the event it comes before, the one whose end it waits for, and the own work until then."""
        before = [work.block_before + begin for work, begin in zip(ranks, self.begin, strict=False)]
        on = [work.block_on + begin for work, begin in zip(ranks, self.begin, strict=False)]
        return np.concatenate(before), np.concatenate(on), np.concatenate([work.block_at for work in ranks])

    def ready(self) -> tuple[Floats, ...]:
        """For each rank the own work after which each of its events was ready, at the latest and at the earliest.

        A queued event was ready as long after its stream's previous one as on the rank that came last and so did not
        wait; at the earliest, as long after as on a rank that did not queue. If all ranks queued, the first event is
        ready at once; of two such events in a row, only the first can be assumed to be.
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


def _before(waits: RankWaits, events: Ints) -> tuple[RankWaits, ...]:
    """The waits before the events; those of one event one after the other."""
    before, on, at = waits
    ordered = np.sort(events)
    low, high = np.searchsorted(before, ordered, "left"), np.searchsorted(before, ordered, "right")
    place = np.argsort(events, kind="stable")
    turns: list[RankWaits] = []
    for turn in range(int((high - low).max(initial=0))):
        which = high - low > turn
        rows = low[which] + turn
        turns.append((place[which], on[rows], at[rows]))
    return tuple(turns)
