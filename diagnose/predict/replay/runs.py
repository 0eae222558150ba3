"""Items that follow each other undisturbed on one stream, as one item each: the same clocks from far fewer of them."""

import numpy as np

from diagnose.arrays import Floats, Ints, Mask
from diagnose.predict.replay.costs import Costs
from diagnose.predict.replay.device import NONE

_LONGEST = 64  # items of a run, so that a queue of about 1,000 launches holds many
_HELD = 8  # runs that a shorter queue holds at least


def runs_of(costs: Costs) -> Costs | None:
    """The runs of the items as items of their own, with a queue that holds runs; None for a queue too short for that.

    Nothing waits inside a run, so what it does to the clocks of host and stream is one sum and one maximum of sums: in
    max-plus algebra a product of matrices, which may be taken in any grouping.
    Unless queues fill, the clocks at the ends of the runs are those of the items. Where they do the clocks of the runs
    are no earlier: a run has to wait before its first call for all that its last one could find in the queue.
    """
    longest = min(_LONGEST, costs.queue // _HELD)
    if not longest or not len(costs.stream):
        return None
    first = _first_items(costs, longest)
    run = np.repeat(np.arange(len(first)), np.diff(first, append=len(costs.stream)))
    on_device = costs.stream >= 0
    opening = np.minimum.reduceat(np.where(on_device, np.arange(len(run)), len(run)), first)
    used = opening < len(run)
    opening = np.where(used, opening, 0)
    busy = np.where(on_device, costs.gap + costs.duration, 0.0)
    gap = np.where(used, costs.gap[opening], 0.0)
    duration = np.add.reduceat(busy, first) - gap
    return Costs(
        before=costs.before[first],
        own=np.add.reduceat(costs.before + costs.own, first) - costs.before[first],
        launches=np.logical_or.reduceat(costs.launches, first),
        owner=np.where(used, _numbered(_owner(costs)[opening], run), NONE),
        stream=np.where(used, costs.stream[opening], NONE),
        latency=np.maximum.reduceat(_launched_end(costs, busy, first, run), first) - duration,
        gap=gap,
        duration=duration,
        edge=_numbered(costs.edge[first], run),
        wait=_numbered(costs.wait[first], run),
        edge_ns=costs.edge_ns,
        queue=costs.queue // longest - 1,
        streams=costs.streams,
    )


def _first_items(costs: Costs, longest: int) -> Ints:
    """The first item of each run: what waits is alone, what is waited for ends a run, what has launched begins one."""
    item = np.arange(len(costs.stream))
    owner, on_device = _owner(costs), costs.stream >= 0
    waits, child = costs.wait != NONE, on_device & (owner != item)
    begins = waits | (costs.edge != NONE)
    begins[0] = True
    begins[owner[child]] = True
    begins[1:] |= waits[:-1] | _switches(costs.stream, on_device)
    begins[1:] |= np.where(child[1:], owner[1:] != owner[:-1], child[:-1])
    awaited = np.concatenate((costs.wait[costs.wait >= 0], costs.edge[costs.edge >= 0])) + 1
    begins[awaited[awaited < len(item)]] = True
    first = np.flatnonzero(begins)
    place = item - np.repeat(first, np.diff(first, append=len(item)))
    return np.flatnonzero(place % longest == 0)


def _switches(stream: Ints, on_device: Mask) -> Mask:
    """Mask of the items but the first that are on another stream than the last activity before them."""
    last = np.maximum.accumulate(np.where(on_device, np.arange(len(stream)), 0))
    return on_device[1:] & (stream[1:] != stream[last[:-1]])


def _owner(costs: Costs) -> Ints:
    """The item that launched each, itself where none did."""
    return np.where(costs.owner >= 0, costs.owner, np.arange(len(costs.owner)))


def _launched_end(costs: Costs, busy: Floats, first: Ints, run: Ints) -> Floats:
    """When the run of each item ends if the item starts as soon as its launch allows, after the call that the run's
    launches count from: its own first one, or that of the item that launched all of it."""
    host = costs.before + costs.own
    called = _sum_before(host, first, run) + costs.before - costs.before[first][run]
    after = np.add.reduceat(busy, first)[run] - _sum_before(busy, first, run) - busy
    owner = _owner(costs)
    since = np.where(run[owner] == run, called[owner], 0.0)
    bound = (costs.stream >= 0) & (costs.owner >= 0)
    return np.where(bound, since + costs.latency + costs.duration + after, -np.inf)


def _sum_before(values: Floats, first: Ints, run: Ints) -> Floats:
    """For each item the sum over those of its run before it."""
    before = np.cumsum(values) - values
    return before - before[first][run]


def _numbered(items: Ints, run: Ints) -> Ints:
    """The runs of the items; what is below zero stays as it is."""
    return np.where(items >= 0, run[np.maximum(items, 0)], items)
