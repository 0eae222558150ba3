"""The host's time around the operators of a step without a GPU.

Its parts are those of the host beside a GPU: calls of a runtime, the engine of autograd, torch's own code, operators
whose kind is not known, and Python. A gap of more than a millisecond counts as Python only if the trace shows Python
there, by its functions or by samples of the stack: it may as well be a wait, a read, or the work of another library.
"""

from collections.abc import Iterator

import numpy as np

from diagnose import intervals as iv
from diagnose.attribution.idle import PYTHON_HOLE_NS, Host
from diagnose.intervals import Intervals
from diagnose.timeline import Timeline
from diagnose.trace.vocabulary import AUTOGRAD, BACKWARD, NO_OPERATOR, OPS, PYTHON, REDUCER, RUNTIME

MOST_OF_A_NODE_NS = 100_000  # autograd's engine takes some 10 us for each node, under the profiler too
MOST_OF_ENGINE_NS = 10_000_000  # to start its threads once; a longer gap may be any code that precedes or follows
_NO_OPERATOR = f"{AUTOGRAD}|{NO_OPERATOR}"
Parts = Iterator[tuple[str, Intervals]]


def around_operators(timeline: Timeline, left: Intervals) -> Parts:
    """Divides the instants at which no operator of known kind and no marked range runs; the parts cover them."""
    for cause, pieces in (*_of_runtime(timeline), ("dispatch", _torch_code(timeline, left)), *_of_python(timeline)):
        painted = iv.intersect(pieces, left)
        left = iv.subtract(left, painted)
        yield cause, painted
    if _shows_python(timeline):
        yield "python", left
        return
    for cause, pieces in _unshown(timeline, left):
        left = iv.subtract(left, pieces)
        yield cause, pieces
    long = iv.longer_than(left, PYTHON_HOLE_NS)
    yield "python", iv.subtract(left, long)
    yield "untraced-step", long


def _of_runtime(timeline: Timeline) -> Parts:
    """The calls of a GPU's runtime by cause; nothing runs on the GPU that they could wait for."""
    for cause, pieces in Host(timeline).layers(iv.EMPTY, iv.EMPTY):
        if cause in ("allocation", "host-allocation", "compile", "sync"):
            yield cause, pieces
    yield "dispatch", iv.of_events(timeline.trace.ts, timeline.trace.dur, timeline.trace.rows_of(*RUNTIME))


def _torch_code(timeline: Timeline, left: Intervals) -> Intervals:
    """Time of torch's own code around its operators: DDP's reducer, and the short gaps within a node of autograd.

    A longer gap there is a hook or a function in Python.
    """
    reducer, nodes = (_instants(timeline, pattern) for pattern in (REDUCER, AUTOGRAD))
    inside = iv.intersect(left, nodes)
    short = iv.subtract(inside, iv.longer_than(inside, MOST_OF_A_NODE_NS))
    return iv.union(short, iv.intersect(left, reducer))


def _instants(timeline: Timeline, pattern: str) -> Intervals:
    rows = timeline.rows_matching(pattern, *OPS)
    return iv.intervals(timeline.trace.ts[rows], timeline.trace.ends(rows))


def _of_python(timeline: Timeline) -> Parts:
    yield "python", iv.of_events(timeline.trace.ts, timeline.trace.dur, timeline.trace.rows_of(*PYTHON))


def _shows_python(timeline: Timeline) -> bool:
    """Whether all that is left is known as Python's: by samples, or by functions that were left out to save memory."""
    return timeline.python_is_sampled or bool(timeline.trace.left_out)


def _unshown(timeline: Timeline, left: Intervals) -> Parts:
    """Gaps that the trace explains without showing Python: at the ends of the backward pass, and in an operator."""
    around = _at_ends_of_backward(timeline, left)
    yield "autograd-engine", around
    rest = iv.subtract(left, around)
    rows = timeline.trace.rows_of(*OPS) & ~timeline.matching(_NO_OPERATOR, *OPS)
    operators = iv.of_events(timeline.trace.ts, timeline.trace.dur, rows)
    yield "untraced-operator", iv.longer_than(iv.intersect(rest, operators), PYTHON_HOLE_NS)


def _at_ends_of_backward(timeline: Timeline, left: Intervals) -> Intervals:
    """The gaps between an operator and a node of autograd: the engine starts its threads, or hands back."""
    nodes = _instants(timeline, BACKWARD)
    gaps = iv.subtract(left, nodes)
    short = (gaps[:, 1] - gaps[:, 0]) <= MOST_OF_ENGINE_NS
    return gaps[short & (np.isin(gaps[:, 1], nodes[:, 0]) != np.isin(gaps[:, 0], nodes[:, 1]))]
