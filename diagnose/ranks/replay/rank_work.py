"""One rank's share of the joint replay: its own work, and the places of the collectives in it.

Time has two parts. The rank's own work is the same whatever the others do; the exposed communication that a
collective's end ended is waiting, and is left out. Every event is placed at the amount of work done when it happened,
so that the replay adds the waiting anew.
"""

from functools import cached_property

import msgspec
import numpy as np
from msgspec.structs import replace

from diagnose import intervals as iv
from diagnose.arrays import Floats, Ints, Mask
from diagnose.ranks.digest import RankDigest

QUEUED_NS = 10_000  # a collective that begins so soon after its stream's previous one had been waiting for it
SAME_NS, SAME_ON_HOST_NS = 1_000, 500_000  # from the end of a collective to the work that waited for it
STRAY = 0.05  # of a wait: rounded times part its end from the collective's, and by chance few kernels begin as near
STRAY_ON_HOST = 0.25  # its thread, and gloo's that marks the end, may each be without a CPU for a while
SOON = 0.5  # of a wait: by chance few collectives end so soon after a rank has gone on by itself
NONE = -1


class RankWork(msgspec.Struct, frozen=True, dict=True):
    """One rank's share of the replay; events are its collectives in the job's order, times are of its own work.

    Attributes:
        row: row of the rank's `calls`, shape (events,).
        step: number of the step of each event.
        at: own work done when each collective began, nanoseconds since the first step began, shape (events,).
        previous: event before it on the same stream, NONE for the first.
        ready: own work after which each was ready, at the latest and at the earliest, shape (2, events).
        lasted: nanoseconds of each collective on this rank, no longer than the work waited for it.
        queued: whether it began as `previous` ended.
        gap: nanoseconds between the two if it was queued, else 0.
        block_before: for each time that work stopped for a collective, the next event; `events` after the last.
        block_on: the event whose end it waited for.
        block_at: own work done until then.
        blocked: nanoseconds it stopped.
        stops: when it stopped, on its own clock.
        goes_on: when it seems to have gone on by itself, though a collective that ran ended soon after.
        start: time at which the first step began, on a clock that all ranks share as far as their collectives end
            together.
        own_ns: own work in all the steps.
        measured_ns: length of all the steps.
        called: what each event is, by kind and size.
        signature: the rank's calls, equal for ranks that do the same job.
        alike: the events by kind, size and then order: at equal places, ranks of one signature do the same.
    """

    row: Ints
    step: Ints
    at: Floats
    ready: Floats
    lasted: Floats
    previous: Ints
    queued: Mask
    gap: Floats
    block_before: Ints
    block_on: Ints
    block_at: Floats
    blocked: Floats
    stops: iv.Intervals
    goes_on: iv.Intervals
    start: float
    own_ns: float
    measured_ns: float
    called: Ints
    signature: int
    alike: Ints

    def in_order_of(self, other: "RankWork") -> "RankWork":
        """The same work with its events in the order of another rank's, which may interleave its streams otherwise."""
        if np.array_equal(self.alike, other.alike):
            return self
        source, place = np.empty_like(self.alike), np.empty_like(self.alike)
        source[other.alike], place[self.alike] = self.alike, other.alike
        previous, on, at = self.previous[source], place[self.block_on], self.at[source]
        before = np.searchsorted(np.maximum.accumulate(at), self.block_at, side="right")
        return replace(
            self,
            row=self.row[source],
            called=self.called[source],
            step=self.step[source],
            at=at,
            ready=self.ready[:, source],
            lasted=self.lasted[source],
            previous=np.where(previous >= 0, place[previous], NONE),
            queued=self.queued[source],
            gap=self.gap[source],
            block_before=np.maximum(before, on + 1),
            block_on=on,
            alike=other.alike,
        )

    def waiting_only(self, awaited: Mask) -> "RankWork":
        """The same work, which waits for the collectives of the mask alone."""
        kept = awaited[self.block_on]
        names = ("block_before", "block_on", "block_at", "blocked")
        return replace(self, **{name: getattr(self, name)[kept] for name in names})

    @cached_property
    def chains(self) -> tuple[Ints, ...]:
        """The events of each group, which run one after the other."""
        chain = np.arange(len(self.previous))
        for event, before in enumerate(self.previous.tolist()):
            chain[event] = chain[before] if before >= 0 else event
        return tuple(np.flatnonzero(chain == first) for first in np.unique(chain))


def rank_work_of(rank: RankDigest, rows: Ints, began: float, windows: Ints) -> RankWork:
    """The work of one rank.

    Args:
        rank: its digest.
        rows: of its calls, in the job's order.
        began: when the first step began on the job's clock.
        windows: its steps, shape (steps, 2).
    """
    calls = rank.calls
    start, end = calls.start[rows], calls.end[rows]
    previous = _previous(calls.group[rows], calls.kind[rows], start, end)
    blocks, on = stopped(rank, start, end, windows, _handed_over(start, end, previous))
    since = np.where(previous >= 0, start - end[previous], QUEUED_NS)
    queued = since < QUEUED_NS
    called = [(calls.kinds[k], b) for k, b in zip(calls.kind[rows].tolist(), calls.bytes[rows].tolist(), strict=True)]
    alike = sorted(range(len(called)), key=lambda e: (called[e], e))
    at, total = _own_work(start, windows, blocks), int((windows[:, 1] - windows[:, 0]).sum())
    left = end.copy()
    np.minimum.at(left, on, blocks[:, 1])
    return RankWork(
        row=rows,
        step=calls.step[rows],
        at=at,
        ready=np.stack((at, at)),
        lasted=(left - start).astype(np.float64),
        previous=previous,
        queued=queued,
        gap=np.where(queued, np.maximum(since, 0), 0).astype(np.float64),
        block_before=np.maximum(np.searchsorted(np.maximum.accumulate(start), blocks[:, 1], side="left"), on + 1),
        block_on=on,
        block_at=_own_work(blocks[:, 1], windows, blocks),
        blocked=(blocks[:, 1] - blocks[:, 0]).astype(np.float64),
        stops=blocks,
        goes_on=_nearly_stopped(iv.subtract(_exposed(rank, windows), blocks), start, end),
        start=began,
        own_ns=float(total - iv.total(blocks)),
        measured_ns=float(total),
        called=np.array([hash(each) for each in called], np.int64),
        signature=hash(tuple(called[e] for e in alike)),
        alike=np.array(alike, np.int64),
    )


def stray_share(rank: RankDigest) -> float:
    """The part of a wait that may lie between its end and the collective's."""
    return STRAY if rank.has_gpu else STRAY_ON_HOST


def stopped(
    rank: RankDigest, start: Ints, end: Ints, windows: Ints, cuts: Ints | None = None
) -> tuple[iv.Intervals, Ints]:
    """Exposed intervals that a collective's end ended, and that collective; in others the rank went on by itself.

    It is the collective that ended last by the end of the interval, so near to it that nothing else can have ended it.
    Times may be rounded, and a host may mark the end late: the next end behind the interval counts if it is nearer.
    An interval is cut where a collective began because another one ended.
    """
    exposed = _exposed(rank, windows)
    exposed = exposed if cuts is None else _parted(exposed, cuts)
    if not len(exposed) or not len(end):
        return iv.EMPTY, np.zeros(0, np.int64)
    since, until = exposed.T
    same, stray = SAME_NS if rank.has_gpu else SAME_ON_HOST_NS, stray_share(rank) * (until - since)
    order = np.argsort(end, kind="stable")
    place = np.searchsorted(end[order], until + SAME_NS, side="right")
    earlier = order[np.maximum(place - 1, 0)]
    later = _ends_next(start, end, until, until + stray)
    ago, ahead = until - end[earlier], end[later] - until
    by_earlier = (place > 0) & (ago <= np.maximum(same, stray))
    by_later = (ahead > 0) & (ahead <= stray) & (start[later] < until) & ~(by_earlier & (ago <= ahead))
    on = np.where(by_later, later, earlier)
    ended = (by_earlier | by_later) & (end[on] > since)
    return exposed[ended], on[ended].astype(np.int64)


def _handed_over(start: Ints, end: Ints, previous: Ints) -> Ints:
    """The ends of collectives at which one of another stream began: if no work ran, it had waited for them."""
    order = np.argsort(end, kind="stable")
    place = np.searchsorted(end[order], start, side="right") - 1
    before = order[np.maximum(place, 0)]
    waited = (place >= 0) & (start - end[before] <= SAME_NS) & (before != previous)
    return np.unique(end[before[waited]])


def _parted(intervals: iv.Intervals, cuts: Ints) -> iv.Intervals:
    """The intervals, with those that hold a cut divided there."""
    if not len(intervals):
        return intervals
    since, until = intervals.T
    at = np.searchsorted(since, cuts, side="right") - 1
    inside = cuts[(at >= 0) & (since[at] < cuts) & (cuts < until[at])]
    return np.stack((np.sort(np.append(since, inside)), np.sort(np.append(until, inside))), axis=1)


def _exposed(rank: RankDigest, windows: Ints) -> iv.Intervals:
    return iv.intersect(rank.exposed, iv.intervals(windows[:, 0], windows[:, 1]))


def _nearly_stopped(exposed: iv.Intervals, start: Ints, end: Ints) -> iv.Intervals:
    """The intervals soon after which a collective ends that ran all the while: the rank may have waited for it."""
    if not len(exposed) or not len(end):
        return iv.EMPTY
    since, until = exposed.T
    soon = until + SOON * (until - since)
    after = _ends_next(start, end, until, soon)
    return exposed[(start[after] < until) & (end[after] > until) & (end[after] <= soon)]


def _ends_next(start: Ints, end: Ints, until: Ints, limit: Ints) -> Ints:
    """For each time the collective that runs then and ends next; one that begins later is passed over up to a limit."""
    order = np.argsort(end, kind="stable")
    place, last = np.searchsorted(end[order], until + SAME_NS, side="right"), len(order) - 1
    at = order[np.minimum(place, last)]
    while (passed := (start[at] >= until) & (end[at] <= limit) & (place < last)).any():
        place = place + passed
        at = order[np.minimum(place, last)]
    return at


def _own_work(times: Ints, windows: Ints, blocks: iv.Intervals) -> Floats:
    """Own work done until each time: the steps so far without the waits in them."""
    steps = iv.intervals(windows[:, 0], windows[:, 1])
    return (iv.covered_before(steps, times) - iv.covered_before(blocks, times)).astype(np.float64)


def _previous(group: Ints, kind: Ints, start: Ints, end: Ints) -> Ints:
    """For each call the one before it on its stream, NONE for the first.

    A group has one stream, or one for each kind if its calls overlap; calls that still overlap have no previous one.
    """
    previous = np.full(len(group), NONE, np.int64)
    for number in np.unique(group):
        of_group = np.flatnonzero(group == number)
        if (start[of_group[1:]] < end[of_group[:-1]] - SAME_NS).any():
            chains = [of_group[kind[of_group] == k] for k in np.unique(kind[of_group])]
        else:
            chains = [of_group]
        for chain in chains:
            previous[chain[1:]] = np.where(start[chain[1:]] < end[chain[:-1]] - SAME_NS, NONE, chain[:-1])
    return previous
