"""The loop over the items, pass after pass, until each takes as long as the one before."""

import math
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from diagnose.arrays import Floats, Ints
from diagnose.predict.replay.costs import Costs
from diagnose.predict.replay.runs import runs_of
from diagnose.predict.replay.waits import ALL_STREAMS, ONE_STREAM

_PASSES = 40
_CONVERGED = 1e-6


def period_ns(costs: Costs) -> float:
    """How long one pass over the items takes when passes follow each other for ever.

    Runs of items bound it from above with their shorter queue and from below with an endless one. Only where these
    differ the items are looped over one by one.
    """
    if (runs := runs_of(costs)) is None:
        return by_items_ns(costs)
    most = by_items_ns(runs)
    if most <= _least_ns(costs) or most <= by_items_ns(replace(runs, queue=sys.maxsize)) * (1 + _CONVERGED):
        return most
    return by_items_ns(costs)


def by_items_ns(costs: Costs) -> float:
    """The same from a loop over all items.

    Host, streams and queues form a max-plus linear system: every time is a maximum of sums of durations. The greatest
    advance of any of its clocks over a pass does not grow from pass to pass, and ends at the period, which no shorter
    duration can lengthen (Baccelli, Cohen, Olsder, Quadrat: Synchronization and Linearity, 1992, chapter 3). No clock
    can do with less than its own work.
    """
    least, clocks = _least_ns(costs), _passes(costs)
    last, advance = next(clocks), np.zeros(1)
    for _ in range(_PASSES):
        now = next(clocks)
        before, advance, last = advance, now - last, now
        if advance.max() <= least or (np.abs(advance - before) <= advance.max() * _CONVERGED).all():
            break
    return float(advance.max())


def _least_ns(costs: Costs) -> float:
    """The work of the busiest clock, and what the last digits may add."""
    on_device = costs.stream >= 0
    work = np.bincount(costs.stream[on_device], (costs.gap + costs.duration)[on_device], minlength=1)
    return max(float((costs.before + costs.own).sum()), float(work.max())) * (1 + _CONVERGED)


def _queues(streams: Ints, places: int) -> dict[int, deque[float]]:
    """When each of a stream's last launches started, the one that has to for the next to find a place being first.

    The first of a queue that is not full has started long ago.
    """
    return {stream: deque([-math.inf], places) for stream in np.unique(streams).tolist()}


def _passes(costs: Costs) -> Iterator[Floats]:
    """The clocks, the host's and then those of the streams, at the end of each pass."""
    takes_a_place = costs.launches & (costs.queue < sys.maxsize)
    columns = (costs.before, costs.own, takes_a_place, costs.owner, costs.stream, costs.latency, costs.gap,
               costs.duration, costs.edge, costs.wait)  # fmt: skip
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    edge_ns, host, ends, latest = costs.edge_ns, 0.0, [0.0] * costs.streams, 0.0
    begun = _queues(costs.stream[takes_a_place], costs.queue)
    called, ended = [0.0] * len(rows), [0.0] * len(rows)
    while True:
        for i, (before, own, queued, owner, stream, latency, gap, duration, edge, wait) in enumerate(rows):
            host += before
            if stream >= 0:
                if queued:
                    held = begun[stream]
                    if held[0] > host:
                        host = held[0]
                called[i] = host
                start = ends[stream] + gap
                if owner >= 0 and called[owner] + latency > start:
                    start = called[owner] + latency
                if edge != -1:
                    free = (ended[edge] if edge >= 0 else ends[ONE_STREAM - edge]) + edge_ns
                    if free > start:
                        start = free
                if queued:
                    held.append(start)
                ends[stream] = ended[i] = end = start + duration
                if end > latest:
                    latest = end
            else:
                called[i] = host
            if wait != -1:
                until = ended[wait] if wait >= 0 else latest if wait == ALL_STREAMS else ends[ONE_STREAM - wait]
                if until > host:
                    host = until
            host += own
        yield np.array([host, *ends])
