"""Long gaps inside one operator: which it is, how long they are, and whether they come again."""

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Ints
from diagnose.attribution.causes import OPERATOR_GAP
from diagnose.attribution.operator_gaps import operator_gaps
from diagnose.facts import Unknown, Value, nothing_helps
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.trace.vocabulary import OPS

_FEWEST_CALLS = 3  # of an operator, to tell what each call does from what the first ones do
_NONE = Unknown("no operator of the counted steps has a long gap", nothing_helps("the host is never silent in one"))


@metric("text")
def operator_gap_operator(m: Measured) -> Value:
    """The operator with most of the device's idle time in long gaps inside one operator."""
    name = _longest(m)
    return _NONE if name is None else m.timeline.trace.names[name]


@metric("count")
def operator_gap_count(m: Measured) -> Value:
    """Number of the long gaps inside this operator."""
    return len(_own(m))


@metric("ns")
def operator_gap_longest_ns(m: Measured) -> Value:
    """The longest of these gaps."""
    own = operator_gaps(m.timeline).instants[_own(m)]
    return int((own[:, 1] - own[:, 0]).max()) if len(own) else _NONE


@metric("ns")
def usual_gap_ns(m: Measured) -> Value:
    """The median time from one launch to the next."""
    return operator_gaps(m.timeline).usual_ns or Unknown("too few launches are linked", nothing_helps("it has one"))


@metric("flag")
def operator_gap_recurs(m: Measured) -> Value:
    """Whether most calls of this operator have such a gap, in most of the counted steps: the operator then works on the
    host, and does not merely start.
    """
    own, name = _own(m), _longest(m)
    if name is None:
        return _NONE
    trace, host = m.timeline.trace, m.timeline.steps.host
    rows = np.flatnonzero(trace.rows_of(*OPS) & (trace.name == name))
    calls = int(iv.holds(host, trace.ts[rows]).sum())
    gaps = operator_gaps(m.timeline)
    slow = len(np.unique(gaps.operator[own]))
    steps = len(np.unique(iv.which_holds(host, gaps.instants[own, 0])))
    return calls >= _FEWEST_CALLS and 2 * slow > calls and 2 * steps > len(host)


def _own(m: Measured) -> Ints:
    """The gaps of the operator with most of the idle time in gaps, in the counted steps."""
    name, found = _longest(m), operator_gaps(m.timeline)
    if name is None:
        return np.zeros(0, np.int64)
    return np.flatnonzero((m.timeline.trace.name[found.operator] == name) & (_idle(m) > 0))


def _longest(m: Measured) -> int | None:
    """The number of that operator's name; None if the device is idle in no gap."""
    return m.once(_longest_name)


def _longest_name(m: Measured) -> int | None:
    names, idle = m.timeline.trace.name[operator_gaps(m.timeline).operator], _idle(m)
    if not idle.any():
        return None
    return int(np.bincount(names, weights=idle).argmax())


def _idle(m: Measured) -> Ints:
    """Nanoseconds of each gap in which the device is idle for it, within the counted steps."""
    gaps = operator_gaps(m.timeline).instants
    return iv.coverage(m.attribution.pieces(OPERATOR_GAP), gaps[:, 0], gaps[:, 1])
