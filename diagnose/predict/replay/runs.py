"""Items that follow each other undisturbed on one stream, as one item each: the same clocks from far fewer of them."""

import numpy as np

from diagnose.arrays import Floats
from diagnose.predict.replay.costs import ReplayCosts
from diagnose.predict.replay.links import Runs


def runs_of(costs: ReplayCosts) -> ReplayCosts | None:
    """The runs of the items as items, with a queue that holds runs; None if the queue is too short for that.

    Nothing waits inside a run, so its effect on the clocks of host and stream is one sum and one maximum of sums: in
    max-plus algebra a product of matrices, which may be taken in any grouping. Unless queues fill, the clocks at the
    ends of the runs are those of the items. If they do fill, the clocks of the runs are no earlier: a run has to wait
    before its first call for everything that its last one could find in the queue.
    """
    if (runs := costs.links.runs) is None:
        return None
    busy = np.add.reduceat(costs.busy, runs.first)
    gap = np.where(runs.used, costs.gap[runs.opening], 0.0)
    return ReplayCosts(
        links=runs.links,
        before=costs.before[runs.first],
        own=np.add.reduceat(costs.host, runs.first) - costs.before[runs.first],
        latency=np.maximum.reduceat(_launched_end(costs, busy, runs), runs.first) - (busy - gap),
        gap=gap,
        duration=busy - gap,
        edge_ns=costs.edge_ns,
    )


def _launched_end(costs: ReplayCosts, busy: Floats, runs: Runs) -> Floats:
    """The end of each item's run if the item starts as soon as its launch allows, relative to the call that the run's
    launches count from: its own first call, or that of the item that launched all of it.

    `busy` is the stream's time for each run.
    """
    called = _sum_before(costs.host, runs) + costs.before - np.repeat(costs.before[runs.first], runs.lengths)
    after = np.repeat(busy, runs.lengths) - _sum_before(costs.busy, runs) - costs.busy
    since = np.where(runs.caller >= 0, called[runs.caller], 0.0)
    bound = costs.links.on_device & (costs.links.owner >= 0)
    return np.where(bound, since + costs.latency + costs.duration + after, -np.inf)


def _sum_before(values: Floats, runs: Runs) -> Floats:
    """For each item the sum over those of its run before it."""
    before = np.cumsum(values) - values
    return before - np.repeat(before[runs.first], runs.lengths)
