"""The table of the longest operators of a job without GPU activity, by their own time in the counted steps."""

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Floats, Ints, numbered
from diagnose.attribution.operator_kinds import kind_of
from diagnose.diagnosis import OperatorRow
from diagnose.judge.kernel_table import LONGEST_NAME
from diagnose.metrics import Measured
from diagnose.roofline.nests import own_time, parents
from diagnose.roofline.owners import distinct
from diagnose.trace import Trace
from diagnose.trace.arguments import tensor_sizes
from diagnose.trace.vocabulary import OPS

OPERATORS_KEPT = 200
_LONGEST_SHAPES = 120


def operator_table(measured: Measured) -> tuple[OperatorRow, ...]:
    """Return the operators by name, longest first; those after the first 200 share the last row.

    Empty if GPU activity is there, or if the profiler distorts the step: it lengthens small operators most.
    """
    timeline = measured.timeline
    if timeline.has_gpu or measured.job.distortion is not None:
        return ()
    trace, rows = timeline.trace, np.flatnonzero(timeline.trace.rows_of(*OPS))
    if not len(rows):
        return ()
    own, begins = _own_ns(trace, rows, timeline.steps.host)
    rows, own, begins = rows[own > 0], own[own > 0], begins[own > 0]
    names, group = numbered(trace.name[rows])
    ns = np.bincount(group, weights=own, minlength=len(names))
    count = np.bincount(group, weights=begins, minlength=len(names))
    shapes = _shapes(trace, rows, own)
    order = np.argsort(-ns, kind="stable")
    listed = [
        _row(measured, trace.names[names[at]], float(ns[at]), float(count[at]), shapes.get(int(names[at]), ""))
        for at in order[:OPERATORS_KEPT]
    ]
    if len(rest := order[OPERATORS_KEPT:]):
        listed.append(_row(measured, "", float(ns[rest].sum()), float(count[rest].sum()), "", len(rest)))
    return tuple(listed)


def _own_ns(trace: Trace, rows: Ints, windows: Ints) -> tuple[Floats, Floats]:
    """Own time of each operator inside the windows, without its callees, and 1 if it begins in one."""
    inside, parent = iv.coverage(windows, trace.ts[rows], trace.ends(rows)), parents(trace, rows)
    return own_time(inside, parent), iv.holds(windows, trace.ts[rows]).astype(np.float64)


def _shapes(trace: Trace, rows: Ints, own: Floats) -> dict[int, str]:
    """The sizes with most time for each name that has sizes."""
    sized = trace.shape[rows] >= 0
    if not sized.any():
        return {}
    keys, group = distinct(trace.name[rows[sized]], trace.shape[rows[sized]])
    ns = np.bincount(group, weights=own[sized], minlength=keys.shape[1])
    return {int(keys[0, at]): _spelled(trace.shapes[keys[1, at]][0]) for at in np.argsort(ns, kind="stable")}


def _spelled(raw: bytes) -> str:
    sizes = ", ".join("x".join(map(str, dims)) for dims in tensor_sizes(raw))
    return f"{sizes[:_LONGEST_SHAPES]}..." if len(sizes) > _LONGEST_SHAPES else sizes


def _row(measured: Measured, name: str, ns: float, count: float, shapes: str, names: int = 1) -> OperatorRow:
    steps = max(measured.timeline.steps.count, 1)
    return OperatorRow(
        name=name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME] + "...",
        names=names,
        count=count / steps,
        ns=int(ns) // steps,
        share=min(measured.attribution.share(ns), 1.0),
        mean_ns=int(ns / max(count, 1)),
        shapes=shapes,
        kind=kind.kind if (kind := kind_of(name)) else "",
    )
