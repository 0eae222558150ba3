"""Separate the step marks of two profilers in one trace.

A profiler of torch writes its ProfilerStep ranges whether it records or not, so a trace can hold those of another
profiler. The ranges of one profiler follow each other and count upwards; ranges that overlap, or count back, come from
two.
"""

from dataclasses import dataclass, field

import numpy as np

from diagnose.arrays import Ints
from diagnose.probes.protocol import OWN_STEPS
from diagnose.trace import Trace

_MOST_SERIES = 8
_SAME_COVER = 0.95  # of the series that covers most: within it the longer steps count, since those hold the shorter
_ROUNDED_NS = 2000


@dataclass
class _Series:
    """Ranges of one profiler: their places among the marks, the end of the last, and its number."""

    at: list[int] = field(default_factory=list)
    end: int = 0
    number: int = -1


def counted_series(trace: Trace, rows: Ints, numbers: Ints) -> Ints:
    """The places of the marks that are counted: all of them if they are one series.

    Of several series, the probe's own is counted if the trace identifies it; else the one that covers most.

    Args:
        trace: the rank's trace.
        rows: rows of the marks, in order of start.
        numbers: the number of each mark.
    """
    begin, end = trace.ts[rows], trace.ends(rows)
    if bool((begin[1:] >= end[:-1] - _overlap_allowed(end - begin)).all()) and bool((np.diff(numbers) > 0).all()):
        return np.arange(len(rows))
    found = _divided(begin.tolist(), end.tolist(), numbers.tolist())
    own = trace.metadata.get(OWN_STEPS)
    marked = [one for one in found if own and all(0 <= numbers[i] - own[0] < own[1] for i in one)]
    return _covering_most(marked or found, end - begin)


def _overlap_allowed(lasted: Ints) -> Ints:
    """For each two neighbours, the overlap that rounding of their times can cause."""
    shorter = np.minimum(lasted[1:], lasted[:-1])
    return np.asarray(np.maximum(shorter // 20, np.minimum(_ROUNDED_NS, shorter // 2)), np.int64)


def _divided(begin: list[int], end: list[int], numbers: list[int]) -> list[Ints]:
    """Each mark goes to the series that it continues best; marks of more than `_MOST_SERIES` are left out."""
    found: list[_Series] = []
    for at, (begins, ends, number) in enumerate(zip(begin, end, numbers, strict=True)):
        slack = (ends - begins) // 20 + min(_ROUNDED_NS, (ends - begins) // 2)
        fitting = [one for one in found if begins >= one.end - slack and number > one.number]
        if not fitting and len(found) < _MOST_SERIES:
            found.append(_Series())
            fitting = found[-1:]
        if fitting:
            best = max(fitting, key=lambda one: (one.number == number - 1, one.end))
            best.at.append(at)
            best.end, best.number = ends, number
    return [np.array(one.at, np.int64) for one in found]


def _covering_most(found: list[Ints], lasted: Ints) -> Ints:
    several = [one for one in found if len(one) > 1] or found
    most = max(int(lasted[one].sum()) for one in several)
    return min((one for one in several if lasted[one].sum() >= _SAME_COVER * most), key=len)
