"""Gradients whose work is not in their operators' arguments, from their forward pass or their kernels."""

from typing import NamedTuple

import numpy as np

from diagnose.arrays import Ints, Mask, among, distinct
from diagnose.roofline import nests, owners
from diagnose.roofline.calls import OperatorCall
from diagnose.roofline.flop_formulas import ATTENTION_FORMULAS, CONVOLUTION_FORMULAS, direction, gradient_mask
from diagnose.timeline import Timeline
from diagnose.timeline.kernel_names import AUXILIARY, COMPUTE_FAMILIES
from diagnose.trace import Trace
from diagnose.trace.vocabulary import OPS

BACKWARD_OVER_FORWARD = 2.5  # of fused attention: two products forward; backward the scores again, dV, dP, dQ and dK
_OF_INPUT, _OF_WEIGHT = r"aten::\w+_backward_input$", r"aten::\w+_backward_weight$"


class Paired(NamedTuple):
    """Operators that launched an attention's backward pass, and the forward operators that they undo."""

    rows: Ints
    forward: Ints


def says_no_mask(call: OperatorCall) -> bool:
    """Whether a convolution's backward call leaves open which gradients it computes."""
    return call.name in CONVOLUTION_FORMULAS and direction(call.name) == "backward" and gradient_mask(call) is None


def convolution_gradients(timeline: Timeline, rows: Ints, operator: Ints) -> Ints:
    """Number of gradients, by input and by weight, that the backward operators in `rows` computed: 1 or 2.

    The first convolution of a network has no input gradient if its input needs none. Old versions of PyTorch run an
    operator for each gradient; else one matrix kernel computes one gradient, and cuDNN's names show which. It is 2 if
    neither helps.

    Args:
        timeline: the timeline of the trace.
        rows: the backward operators, ascending.
        operator: aligned with the activities, as `owners.operators` returns it.
    """
    by_input, by_weight = (_inside(timeline, rows, pattern) for pattern in (_OF_INPUT, _OF_WEIGHT))
    kernels, same = _gradient_kernels(timeline, rows, operator)
    single = (kernels == 1) | ((kernels > 1) & same)
    return np.where(by_input | by_weight, by_input.astype(np.int64) + by_weight, np.where(single, 1, 2))


def _inside(timeline: Timeline, rows: Ints, pattern: str) -> Mask:
    """Mask of the rows with an operator inside whose name matches."""
    inner = timeline.rows_matching(pattern, *OPS)
    return among(rows, owners.around(timeline.trace, rows, inner))


def _gradient_kernels(timeline: Timeline, rows: Ints, operator: Ints) -> tuple[Ints, Mask]:
    """The number of matrix kernels of each operator, and whether by their names all compute the same gradient."""
    gpu = timeline.gpu
    at = np.flatnonzero(gpu.of_family(*COMPUTE_FAMILIES) & ~gpu.tagged(AUXILIARY) & (operator >= 0))
    around = owners.around(timeline.trace, rows, operator[at])
    at, place = at[around >= 0], np.searchsorted(rows, around[around >= 0])
    names = [name.lower() for name in timeline.trace.names]
    of_kernel = timeline.trace.name[gpu.row[at]]
    kernels = np.bincount(place, minlength=len(rows))
    named = [
        _counts(np.array([word in n for n in names], bool)[of_kernel], place, len(rows)) for word in ("dgrad", "wgrad")
    ]
    return kernels, (named[0] == kernels) | (named[1] == kernels)


def _counts(chosen: Mask, place: Ints, length: int) -> Ints:
    return np.bincount(place[chosen], minlength=length)


def attention_pairs(timeline: Timeline, operator: Ints, known: Ints) -> Paired:
    """The attention backward passes of unknown work, each with the forward pass that it undoes.

    Backward passes undo forward passes in reverse order, recomputed ones included, so each takes the last forward pass
    that is not taken yet. If one operator launched several, as a compiled function does, none is paired.

    Args:
        timeline: the timeline of the trace.
        operator: aligned with the activities, as `owners.operators` returns it.
        known: rows of the operators whose FLOPs are known, ascending.
    """
    trace, unknown = timeline.trace, _unknown_backwards(timeline, operator, known)
    if not len(unknown):
        return _undone([], [])
    goes_forward, goes_back = (_attention(trace, way) for way in ("forward", "backward"))
    forward, backward = _outermost(trace, goes_forward), _outermost(trace, goes_back[among(goes_back, known)])
    events = np.concatenate([forward, backward, unknown])
    kind = np.repeat([0, 1, 2], [len(forward), len(backward), len(unknown)])
    order = np.argsort(trace.ts[events], kind="stable")
    return _undone(events[order].tolist(), kind[order].tolist())


def _undone(events: list[int], kind: list[int]) -> Paired:
    """Events in order of time: 0 a forward pass, 1 a backward pass of known work, 2 one of unknown work."""
    waiting: list[int] = []
    pairs: list[tuple[int, int]] = []
    for row, of in zip(events, kind, strict=True):
        if of == 0:
            waiting.append(row)
        elif waiting:
            taken = waiting.pop()
            if of == 2:
                pairs.append((row, taken))
    rows = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    return Paired(rows[:, 0], rows[:, 1])


def _attention(trace: Trace, way: str) -> Ints:
    """Rows of attention's operators that compute in that direction."""
    return np.flatnonzero(trace.named_in(lambda name: name in ATTENTION_FORMULAS and direction(name) == way, *OPS))


def _outermost(trace: Trace, rows: Ints) -> Ints:
    return rows[nests.parents(trace, rows) == nests.NONE]


def _unknown_backwards(timeline: Timeline, operator: Ints, known: Ints) -> Ints:
    """Operators that launched one attention backward pass and lie in no operator of known FLOPs."""
    gpu, trace = timeline.gpu, timeline.trace
    kinds = np.array([kind.family == "attention" and kind.sub == "bwd" for kind in gpu.kinds], bool)
    at = np.flatnonzero(kinds[gpu.kind] & ~gpu.tagged(AUXILIARY) & (operator >= 0)) if len(gpu) else gpu.row
    if not len(at):
        return np.zeros(0, np.int64)
    at = at[owners.around(trace, known, operator[at]) == nests.NONE]
    passes = owners.distinct(operator[at], trace.name[gpu.row[at]])[1]
    repeated = np.bincount(passes)[passes] > 1 if len(at) else np.zeros(0, bool)
    own = operator[at]
    return distinct(own[~among(own, own[repeated])])
