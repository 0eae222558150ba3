"""The time of operators on the host by cause, without what each calls."""

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Array, Ints, Mask
from diagnose.attribution.causes import OPERATORS, UNKNOWN_OPERATORS
from diagnose.attribution.operator_kinds import kind_of
from diagnose.intervals import Intervals
from diagnose.roofline.nests import NONE, Pieces, innermost, parents
from diagnose.timeline import Timeline
from diagnose.trace import Trace
from diagnose.trace.vocabulary import OPS

_DESCRIBES = "dispatch"  # the cause of operators that only describe a tensor anew
_ALLOCATES = "operator-allocation"
LONG_ALLOCATION_NS = 100_000  # it takes a microsecond or two, unless it wakes a device or waits for the system
_CAUSES = (*OPERATORS, _DESCRIBES)


def operator_time(timeline: Timeline) -> dict[str, Intervals]:
    """The instants of operators by cause, those of matrix operators first."""
    trace = timeline.trace
    kinds = [kind_of(name) for name in trace.names]
    of_name = np.array([-1 if kind is None else _CAUSES.index(kind.cause) for kind in kinds], np.int8)
    rows = _that_count(trace, np.flatnonzero(trace.rows_of(*OPS) & (of_name >= 0)[trace.name]), of_name)
    pieces, cause = innermost(trace, rows), of_name[trace.name[rows]]
    cause[(cause == _CAUSES.index(UNKNOWN_OPERATORS)) & _calls_others(trace.dur[rows], pieces)] = -1
    return {name: _instants(pieces, cause[pieces.of] == number) for number, name in enumerate(_CAUSES)}


def _that_count(trace: Trace, rows: Ints, of_name: Array) -> Ints:
    """The operators but for those that describe a tensor anew inside another one, or allocate it at once: they are part
    of its work.
    """
    cause = of_name[trace.name[rows]]
    at_once = (cause == _CAUSES.index(_ALLOCATES)) & (trace.dur[rows] < LONG_ALLOCATION_NS)
    is_part = at_once | (cause == _CAUSES.index(_DESCRIBES))
    return rows[~is_part | (parents(trace, rows) == NONE)]


def _calls_others(lasts: Ints, pieces: Pieces) -> Mask:
    """Mask of the operators with another one inside: one of unknown kind that has any may be written in Python."""
    return np.bincount(pieces.of, weights=pieces.end - pieces.start, minlength=len(lasts)) < lasts


def _instants(pieces: Pieces, marked: Mask) -> Intervals:
    return iv.intervals(pieces.start[marked], pieces.end[marked])
