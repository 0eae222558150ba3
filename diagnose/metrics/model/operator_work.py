"""The part of the time of CPU operators that is work, by the rates that the same operators reach in other calls."""

import re

import numpy as np

from diagnose.arrays import Floats, Ints, Mask
from diagnose.metrics.measured import Measured
from diagnose.roofline import nests
from diagnose.roofline.flops import CountedOperators
from diagnose.trace.arguments import tensor_elements
from diagnose.trace.vocabulary import OPS

_PAIRS = re.compile(r"attention|::(?:baddb|b)mm$|(?<!log)_softmax")
_QUICK = 0.75  # quantile of an operator's rates: a call above it is hardly more than its work


def work_part(m: Measured, known: CountedOperators) -> float:
    """The part of the operators' own time that their work takes: FLOPs where they are known, else elements of tensors.

    Each operator works at the rate of its quick calls; what a call takes beyond that does not grow with its tensors. A
    call without sizes counts as work.
    """
    rows, own_ns, innermost = _in_steps(m)
    size, by_flops = _sizes(m, rows, known)
    computes = innermost | by_flops
    own_ns, size, by_flops = own_ns[computes], size[computes], by_flops[computes]
    kinds = 2 * m.timeline.trace.name[rows[computes]].astype(np.int64) + by_flops
    work_ns = np.zeros(len(own_ns))
    for kind in np.unique(kinds):
        alike = kinds == kind
        work_ns[alike] = _work(own_ns[alike], size[alike])
    return float(work_ns.sum() / max(own_ns.sum(), 1.0))


def part_of_pairs(m: Measured) -> float:
    """The part of the operators' own time that compares pairs of tokens."""
    rows, own_ns, innermost = _in_steps(m)
    pairs = m.timeline.trace.named_in(_compares_pairs, *OPS)[rows]
    return float(own_ns[pairs].sum() / max(own_ns[innermost | pairs].sum(), 1.0))


def elements_per_step(m: Measured, operators: Ints) -> float:
    """Elements of all tensors that these operators are given in a counted step; those without sizes have none."""
    trace = m.timeline.trace
    shaped = m.in_steps_of_host(operators[trace.shape[operators] >= 0])
    each, times = np.unique(trace.shape[shaped], return_counts=True)
    elements = sum(tensor_elements(trace.shapes[s][0]) * int(n) for s, n in zip(each, times, strict=True))
    return m.timeline.steps.each(elements)


def _compares_pairs(name: str) -> bool:
    return _PAIRS.search(name) is not None


def _work(own_ns: Floats, size: Floats) -> Floats:
    """Nanoseconds of work in calls of one operator."""
    known = ~np.isnan(size)
    rate = float(np.quantile(size[known] / own_ns[known], _QUICK)) if known.any() else 0.0
    at_rate = size / rate if rate > 0 else np.zeros(len(size))
    return np.where(known, np.minimum(own_ns, at_rate), own_ns)


def _in_steps(m: Measured) -> tuple[Ints, Floats, Mask]:
    """The operators of the counted steps, their time without those inside them, one nanosecond at least, and whether
    there are none inside.
    """
    rows = np.flatnonzero(m.timeline.trace.rows_of(*OPS))
    rows = m.in_steps_of_host(rows)
    around = nests.parents(m.timeline.trace, rows)
    own_ns = nests.own_time(m.timeline.trace.dur[rows], around)
    return rows, np.maximum(own_ns, 1.0), nests.without_inner(around)


def _sizes(m: Measured, rows: Ints, known: CountedOperators) -> tuple[Floats, Mask]:
    """FLOPs of each call or the elements of its tensors, NaN if neither is known, and which have FLOPs."""
    shape = m.timeline.trace.shape[rows]
    distinct, which = np.unique(shape, return_inverse=True)
    shapes = m.timeline.trace.shapes
    size = np.array([tensor_elements(shapes[s][0]) if s >= 0 else np.nan for s in distinct], np.float64)[which]
    at = np.clip(np.searchsorted(known.rows, rows), 0, max(len(known.rows) - 1, 0))
    flops = np.where(known.rows[at] == rows, known.flops[at], 0.0)
    return np.where(flops > 0, flops, size), flops > 0
