"""The loop over the items, pass after pass, until each takes as long as the one before."""

import sys
from dataclasses import replace

import numpy as np

from diagnose.predict.replay.costs import ReplayCosts
from diagnose.predict.replay.passes import passes
from diagnose.predict.replay.runs import runs_of

_CONVERGED = 1e-6


def period_ns(costs: ReplayCosts) -> float:
    """Nanoseconds of one pass over the items when passes repeat for ever.

    Runs of items bound it from above with their shorter queue and from below with an endless one. Only if these differ
    are the items looped over one by one.
    """
    if (runs := runs_of(costs)) is None:
        return by_items_ns(costs)
    most = by_items_ns(runs)
    endless = replace(runs, links=replace(runs.links, queue=sys.maxsize))
    if most <= _least_ns(costs) or most <= by_items_ns(endless) * (1 + _CONVERGED):
        return most
    return by_items_ns(costs)


def by_items_ns(costs: ReplayCosts) -> float:
    """The same from a loop over all items.

    Host, streams and queues form a max-plus linear system: every time is a maximum of sums of durations. The greatest
    advance of any of its clocks over a pass does not grow from pass to pass, and ends at the period, which no shorter
    duration can lengthen (Baccelli, Cohen, Olsder, Quadrat: Synchronization and Linearity, 1992, chapter 3). No clock
    can do with less than its own work.
    """
    least, clocks = _least_ns(costs), passes(costs)
    last, advance = next(clocks), np.zeros(1)
    for now in clocks:
        before, advance, last = advance, now - last, now
        if advance.max() <= least or (np.abs(advance - before) <= advance.max() * _CONVERGED).all():
            break
    return float(advance.max())


def _least_ns(costs: ReplayCosts) -> float:
    """The work of the busiest clock, and what the last digits may add."""
    return costs.busiest_ns * (1 + _CONVERGED)
