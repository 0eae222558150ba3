"""Replay all ranks of a job together, from their digests.

A rank works by itself and reaches its collectives at points of that work. A collective ends on all its ranks when the
last has come and the transfer is done. If a rank had nothing else to run, its work waits for that end. The waits for
other ranks are no input: they result from the replay. A collective that began as its stream's previous one ended was
queued: it was ready before, and the ranks that did not wait show when.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np
from msgspec.structs import replace

from diagnose.arrays import Floats, Ints
from diagnose.facts import Unknown, another_run
from diagnose.ranks.collectives.clocks import Alignment, align_all, bases_of
from diagnose.ranks.collectives.matching import Match
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.replay.rank_work import NONE, RankWork, rank_work_of
from diagnose.ranks.replay.rounds import Case, JobEvents

PASSES = 3  # the first two bring the ranks into the rhythm that lasts
UNEQUAL_STEPS = Unknown("the ranks have no counted step in common", another_run("capture the same steps on every rank"))


class Joint(msgspec.Struct, frozen=True, dict=True):
    """The ranks and their collectives.

    Attributes:
        work: work of each rank.
        collective: for each rank the collective of each of its events.
        transfer: nanoseconds of each collective once all have come.
        steps: number of steps in the work.
        ordered: the same work in the order of replay, if that is already known.
    """

    work: tuple[RankWork, ...]
    collective: tuple[Ints, ...]
    transfer: Floats
    steps: int
    ordered: JobEvents | None = None

    @cached_property
    def measured_ns(self) -> Floats:
        """Mean step of each rank as measured."""
        return np.array([work.measured_ns for work in self.work]) / self.steps

    @cached_property
    def strict_error(self) -> float:
        """Largest relative difference between a rank's replayed and measured steps.

        It is taken from the ranks' measured starts and, for two steps or more, also from the steady rhythm. Infinite if
        a rank's steps take no time.
        """
        if not self.measured_ns.min() > 0:
            return np.inf
        once = self._events.replayed(self.transfer, "worst", self._start, 1) / self.steps
        apart = float(np.max(np.abs(once - self.measured_ns) / self.measured_ns))
        longest = float(self.measured_ns.max())
        return max(apart, abs(self.job_step_ns() - longest) / longest)

    def step_ns(self, case: Case = "worst") -> Floats:
        """Mean step of each rank when such steps follow each other, shape (ranks,); a single one from its start.

        Args:
            case: whether queued collectives are taken to be ready late or early.
        """
        start, passes = (self._start, 1) if self.steps == 1 else (np.zeros(len(self.work)), PASSES)
        return self._events.replayed(self.transfer, case, start, passes) / self.steps

    def job_step_ns(self, case: Case = "worst") -> float:
        """The step of the slowest rank."""
        return float(self.step_ns(case).max())

    def with_work(self, work: Mapping[int, RankWork]) -> "Joint":
        """Some ranks behave like others: other work at their positions."""
        return replace(self, work=tuple(work.get(p, now) for p, now in enumerate(self.work)), ordered=None)

    def with_ready(self) -> "Joint":
        """Queued collectives are ready when the ranks that did not queue show it."""
        both = zip(self.work, self._events.ready(), strict=True)
        return replace(self, work=tuple(replace(work, ready=ready) for work, ready in both), ordered=None)

    def with_transfer(self, transfer: Floats) -> "Joint":
        """Collectives that take other times."""
        return replace(self, transfer=transfer, ordered=self._events)

    @property
    def _start(self) -> Floats:
        return np.array([work.start for work in self.work])

    @cached_property
    def _events(self) -> JobEvents:
        return self.ordered or JobEvents(self.work, self.collective, len(self.transfer))


def joint_of(ranks: Sequence[RankDigest], matched: Match) -> Joint | Unknown:
    """The joint replay of the steps that all ranks have, or why there is none."""
    numbers = sorted(set.intersection(*(set(rank.numbers) for rank in ranks)))
    if not numbers:
        return UNEQUAL_STEPS
    rows = [np.flatnonzero(np.isin(rank.calls.step, numbers)) for rank in ranks]
    of, transfer = _collectives(ranks, rows, matched)
    windows = [rank.windows[np.isin(rank.numbers, numbers)] for rank in ranks]
    alignment = align_all(ranks, matched)
    begun = _on_one_clock(ranks, alignment, [rank.calls.start[at] for rank, at in zip(ranks, rows, strict=True)])
    starts = _on_one_clock(ranks, alignment, [window[:1, 0] for window in windows])
    order = _order(begun, of)
    rows, of = ([column[o] for column, o in zip(columns, order, strict=True)] for columns in (rows, of))
    work = tuple(
        rank_work_of(rank, at, float(start[0]), window)
        for rank, at, start, window in zip(ranks, rows, starts, windows, strict=True)
    )
    for rank_work, collective in zip(work, of, strict=True):
        np.minimum.at(transfer, collective, rank_work.lasted)
    return Joint(work, tuple(of), transfer, len(numbers)).with_ready()


def _on_one_clock(ranks: Sequence[RankDigest], alignment: Alignment, times: Sequence[Ints]) -> list[Floats]:
    """Times of each rank's own clock as nanoseconds of the first rank's."""
    base = bases_of(ranks)
    aligned = (alignment.aligned(p, own + base[p]) for p, own in enumerate(times))
    return [(time - base[0]).astype(np.float64) for time in aligned]


def _order(start: Sequence[Floats], of: Sequence[Ints]) -> list[Ints]:
    """Each rank's calls in the order in which the last rank comes to the collectives.

    Streams of their own may begin in another order on some rank; the replay needs one for all. In this one a collective
    follows those that any of its ranks waited for before.
    """
    last = np.full(1 + max(int(column.max(initial=NONE)) for column in of), -np.inf)
    for column, begun in zip(of, start, strict=True):
        np.maximum.at(last, column, begun)
    return [np.lexsort((column, last[column])) for column in of]


def _collectives(ranks: Sequence[RankDigest], rows: Sequence[Ints], matched: Match) -> tuple[list[Ints], Floats]:
    """The collective of each rank's events and the transfer of each; one that did not match is its rank's own."""
    place = [_position_of(len(rank.calls), at) for rank, at in zip(ranks, rows, strict=True)]
    of = [np.full(len(at), NONE, np.int64) for at in rows]
    transfer: list[float] = []
    for group in matched:
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


def _position_of(count: int, rows: Ints) -> Ints:
    """The position of each of `count` calls among the rows, NONE if it is not there."""
    place = np.full(count, NONE, np.int64)
    place[rows] = np.arange(len(rows))
    return place
