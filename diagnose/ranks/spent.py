"""Time that a rank has spent on each cause up to given instants."""

import numpy as np

from diagnose.arrays import Ints, summed
from diagnose.attribution.attribution import Attribution


def spent_before(attribution: Attribution, times: Ints) -> Ints:
    """Nanoseconds of each cause before each of the times, shape (times, causes).

    The pieces are disjoint, so of those that began before a time only the last can still run. Each is booked whole at
    the first time behind its start, and what it has still to run is taken off there: one pass serves all causes.
    """
    order, causes = np.argsort(times, kind="stable"), len(attribution.causes)
    until, start, end, cause = times[order], attribution.start, attribution.end, attribution.cause
    before = np.diff(np.searchsorted(start, until, side="left"), prepend=0, append=len(start))
    place = np.repeat(np.arange(len(times) + 1) * causes, before) + cause
    booked = summed(place, end - start, (len(times) + 1) * causes)
    by_time = np.cumsum(booked.reshape(len(times) + 1, causes)[:-1], axis=0)
    last = np.searchsorted(start, until, side="left") - 1
    begun = np.flatnonzero(last >= 0)
    last = last[begun]
    by_time[begun, cause[last]] -= np.maximum(end[last] - until[begun], 0)
    spent = np.empty_like(by_time)
    spent[order] = by_time
    return spent
