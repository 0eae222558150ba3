"""Floating-point operations of the operators in a trace, once per operator however many kernels it launches.

If one counted operator runs inside another, the outer one's operations are counted and the inner one's are not added
again. FLOPs that a kernel reports itself (`kernel_flop` of Triton) are not used: they repeat the operator's FLOPs for
every kernel of it.
"""

import math

import msgspec
import numpy as np
from msgspec.structs import replace

from diagnose import intervals as iv
from diagnose.arrays import Floats, Ints, Mask, among
from diagnose.formulas import share
from diagnose.roofline import nests, owners
from diagnose.roofline.calls import call_of
from diagnose.roofline.flop_formulas import FORMULAS, Outputs, causal_share, flops_of, key
from diagnose.roofline.gradients import BACKWARD_OVER_FORWARD, attention_pairs, convolution_gradients, says_no_mask
from diagnose.timeline import Timeline
from diagnose.trace.vocabulary import OPS


class CountedFlops(msgspec.Struct, frozen=True):
    """FLOPs of one step (mean over the counted steps), with how much matrix-kernel time they explain.

    `covered_share` is of the time of matrix, convolution and attention kernels: what runs under a counted operator.
    """

    per_step: float
    covered_share: float
    unsized: int


class CountedOperators(msgspec.Struct, frozen=True):
    """Rows of the operators with known FLOPs, ascending, and what each does beyond the counted ones inside it.

    `causal` is the share of each one's FLOPs that its causal mask lets through. `paired` are the rows of attention
    backward passes without sizes, whose FLOPs are those of their forward pass times a factor.
    """

    rows: Ints
    flops: Floats
    causal: Floats
    paired: Ints
    unsized: int


def count(timeline: Timeline) -> CountedFlops | None:
    """FLOPs of the counted steps; None when no counted operator carries shapes."""
    operators = counted(timeline)
    if operators is None:
        return None
    rows = operators.rows
    inside = _in_steps(timeline, rows)
    steps = max(timeline.steps.count, 1)
    return CountedFlops(
        per_step=float(operators.flops[inside].sum()) / steps,
        covered_share=_covered(timeline, rows),
        unsized=operators.unsized,
    )


def count_within(timeline: Timeline, spans: iv.Intervals) -> float:
    """FLOPs of one step that the operators do which begin in the spans of the host's time."""
    operators = counted(timeline)
    if operators is None or not len(spans):
        return 0.0
    chosen = _in_steps(timeline, operators.rows) & iv.holds(spans, timeline.trace.ts[operators.rows])
    return timeline.steps.each(float(operators.flops[chosen].sum()))


def counted(timeline: Timeline) -> CountedOperators | None:
    """Every counted operator of the trace with its own FLOPs; None if none has shapes to count by.

    Calls during graph capture compute nothing and are left out; so are those that another GPU computes.
    """
    return timeline.once(_counted)


def _counted(timeline: Timeline) -> CountedOperators | None:
    trace, operator = timeline.trace, owners.operators(timeline)
    rows = np.flatnonzero(trace.named_in(FORMULAS.__contains__, *OPS))
    rows = rows[~timeline.captures.during(trace, rows)]
    rows = rows[~_launches_elsewhere(timeline, rows)]
    shaped = rows[trace.shape[rows] >= 0]
    if not len(shaped):
        return None
    pairs, which = owners.distinct(trace.name[shaped], trace.shape[shaped])
    calls = [call_of(trace.names[n], trace.shapes[s]) for n, s in pairs.T]
    outputs = convolution_outputs(timeline)
    each = [flops_of(call, outputs) for call in calls]
    total = np.array([math.nan if f is None else f for f in each])[which]
    causal = np.array([causal_share(call) for call in calls])[which]
    known = ~np.isnan(total)
    if not known.any():
        return None
    unsaid = np.array([says_no_mask(call) for call in calls], bool)[which][known]
    sized, total = shaped[known], total[known]
    if unsaid.any():
        total[unsaid] *= convolution_gradients(timeline, sized[unsaid], operator) / 2
    found = CountedOperators(sized, total, causal[known], np.zeros(0, np.int64), len(rows) - len(sized))
    found = _with_pairs(found, *attention_pairs(timeline, operator, sized))
    return replace(found, flops=_beyond_nested(found.flops, nests.parents(trace, found.rows)))


def _launches_elsewhere(timeline: Timeline, rows: Ints) -> Mask:
    """Mask of the operators in `rows` that launch on another GPU of the process, themselves or inside."""
    trace, launches = timeline.trace, timeline.other_gpus.launches
    found = np.zeros(len(rows), bool)
    if not len(launches) or not len(rows):
        return found
    innermost = owners.around(trace, rows, launches)
    at, parent = np.flatnonzero(among(rows, innermost)), nests.parents(trace, rows)
    while len(at):
        found[at] = True
        at = np.unique(parent[at])
        at = at[(at >= 0) & ~found[at]]
    return found


def _with_pairs(sized: CountedOperators, rows: Ints, forward: Ints) -> CountedOperators:
    """The attention backward passes in `rows` added, as far as the FLOPs of their forward passes are known."""
    at = np.minimum(np.searchsorted(sized.rows, forward), len(sized.rows) - 1)
    known = sized.rows[at] == forward
    every = np.concatenate([sized.rows, rows[known]])
    order = np.argsort(every, kind="stable")
    return CountedOperators(
        rows=every[order],
        flops=np.concatenate([sized.flops, BACKWARD_OVER_FORWARD * sized.flops[at[known]]])[order],
        causal=np.concatenate([sized.causal, sized.causal[at[known]]])[order],
        paired=rows[known],
        unsized=sized.unsized,
    )


def _beyond_nested(total: Floats, parent: Ints) -> Floats:
    """The rest of each total after the counted operators inside it; never negative."""
    depth = _depth(parent)
    by_depth = np.argsort(depth, kind="stable")
    levels = np.split(by_depth, np.cumsum(np.bincount(depth))[:-1]) if len(depth) else []
    inside = np.zeros(len(total))
    for at in levels[:0:-1]:
        np.add.at(inside, parent[at], np.maximum(total[at], inside[at]))
    return np.maximum(total - inside, 0.0)


def _depth(parent: Ints) -> Ints:
    """Number of operators around each one; every round looks twice as far up."""
    depth, up = (parent >= 0).astype(np.int64), parent
    while (nested := up >= 0).any():
        depth = depth + np.where(nested, depth[up], 0)
        up = np.where(nested, up[up], -1)
    return depth


def _in_steps(timeline: Timeline, rows: Ints) -> Mask:
    return iv.which_holds(timeline.steps.host, timeline.trace.ts[rows]) >= 0


def _covered(timeline: Timeline, rows: Ints) -> float:
    """Share of the matrix-kernel time whose launch lies inside a counted operator, of what has a launch."""
    gpu, trace = timeline.gpu, timeline.trace
    matrix = gpu.is_compute_bound & (gpu.launcher >= 0)
    if not matrix.any():
        return 1.0
    operators = iv.intervals(trace.ts[rows], trace.ends(rows))
    launch = gpu.launch_start[matrix]
    under = iv.holds(operators, launch)
    time = (gpu.end - gpu.start)[matrix]
    return share(time[under].sum(), time.sum()) or 0.0


def convolution_outputs(timeline: Timeline) -> Outputs:
    """Output sizes of convolutions by (input, weight), read off the gradients of their backward operators."""
    trace = timeline.trace
    convolves = trace.named_in(lambda name: name in FORMULAS and "convolution" in name, *OPS)
    rows = np.flatnonzero(convolves & (trace.shape >= 0))
    outputs: Outputs = {}
    for name, shape in owners.distinct(trace.name[rows], trace.shape[rows])[0].T if len(rows) else ():
        dims = call_of(trace.names[name], trace.shapes[shape]).dims
        if trace.names[name] == "aten::convolution_backward" and len(dims) > 2:
            outputs[key(dims[1], dims[2])] = dims[0]
        elif trace.names[name] == "aten::cudnn_convolution_backward" and len(dims) > 2:
            outputs[key(dims[0], dims[2])] = dims[1]
    return outputs
