"""Waiting for a CPU core, taken out of what the host computes.

The kernel counts for each step how long its threads were on a core, and how long they were ready to run and had none,
but not when. So every piece of time in which they compute gives up the part that waits of all the time in which they
could run, and never more than was waited. It gives it up at its beginning: a thread that is to run waits before it
does. Waiting for data, for other ranks and for the device is sleep, and stays whole.
"""

import msgspec
import numpy as np

from diagnose.arrays import Floats, Ints, marked
from diagnose.attribution.attribution import Attribution
from diagnose.attribution.causes import CORE_WAIT, ON_A_CORE, ON_A_CORE_OF_HOST


def with_core_wait(attribution: Attribution, times: Floats, *, on_host: bool, loads_itself: bool) -> Attribution:
    """The attribution with the waiting for cores as a cause of its own; as it is if the times are not known.

    Args:
        attribution: of one rank.
        times: nanoseconds on a core, and ready without one, of each counted step; NaN if they are not known.
        on_host: whether the steps are accounted on the host.
        loads_itself: whether the training thread loads the data, without workers.
    """
    if not np.isfinite(times).all() or not len(times):
        return attribution
    causes = {*(ON_A_CORE_OF_HOST if on_host else ON_A_CORE), *(("data-wait",) if loads_itself else ())}
    cut = _cut_at(attribution, attribution.windows[:, 0])
    computes = marked(np.array([cause in causes for cause in cut.causes], bool), cut.cause)
    step = np.searchsorted(cut.windows[:, 0], cut.start[computes], side="right") - 1
    lasts = (cut.end - cut.start)[computes]
    in_step = np.bincount(step, weights=lasts, minlength=len(times))
    part = times[:, 1] / np.maximum(np.maximum(times.sum(axis=1), in_step), 1)
    return _divided(cut, np.flatnonzero(computes), _heads(step, lasts, part))


def _heads(step: Ints, lasts: Ints, part: Floats) -> Ints:
    """Whole nanoseconds of each piece that are its part, which add up to the part of all pieces before and with it."""
    due = np.floor(np.cumsum(lasts * part[step]) + 0.5).astype(np.int64)
    return np.clip(np.diff(due, prepend=0), 0, lasts)


def _divided(cut: Attribution, rows: Ints, heads: Ints) -> Attribution:
    rows, heads = rows[heads > 0], heads[heads > 0]
    if not len(rows):
        return cut
    start = cut.start.copy()
    start[rows] += heads
    kept = start < cut.end
    begins = np.concatenate((start[kept], cut.start[rows]))
    order = np.argsort(begins, kind="stable")
    waits = np.full(len(rows), len(cut.causes), cut.cause.dtype)
    return msgspec.structs.replace(
        cut,
        start=begins[order],
        end=np.concatenate((cut.end[kept], start[rows]))[order],
        cause=np.concatenate((cut.cause[kept], waits))[order],
        causes=(*cut.causes, CORE_WAIT),
    )


def _cut_at(attribution: Attribution, times: Ints) -> Attribution:
    """The same with each piece that one of the times lies within as two."""
    at = np.searchsorted(attribution.start, times, side="left") - 1
    inside = (at >= 0) & (attribution.end[np.maximum(at, 0)] > times)
    row, times = at[inside], times[inside]
    if not len(row):
        return attribution
    start = np.insert(attribution.start, row + 1, times)
    end = np.insert(attribution.end, row, times)
    cause = np.insert(attribution.cause, row, attribution.cause[row])
    return msgspec.structs.replace(attribution, start=start, end=end, cause=cause)
