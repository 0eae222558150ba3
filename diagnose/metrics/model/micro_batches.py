"""Gradients accumulated over small micro-batches: what each costs however few samples it has."""

from math import inf

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Ints
from diagnose.attribution.causes import OPERATORS, PER_LAUNCH
from diagnose.facts import STEP, Unknown, Value
from diagnose.metrics.measured import Measured
from diagnose.metrics.model.batch import FILLED, MOST_STATES, model_state_bytes
from diagnose.metrics.model.operator_work import elements_per_step, part_of_pairs, work_part
from diagnose.metrics.registry import metric
from diagnose.metrics.run.memory import memory_peak_bytes, memory_total_bytes
from diagnose.metrics.run.setup import accumulation_steps, micro_batch_size
from diagnose.metrics.run.usual import usual_step_ns
from diagnose.metrics.unknowns import NO_SHAPES
from diagnose.roofline import nests
from diagnose.roofline.flops import counted
from diagnose.trace.vocabulary import OPS

MOST_GROWTH = 16
LARGER_CALL = 1.5  # at most, a call for several samples over one for a single one, apart from arithmetic: an estimate
FASTER_CALL = 4.0  # at most, the rate of a call for several samples over that of the quick calls for one: an estimate
SLOW_FLOPS_PER_S, SLOW_BYTES_PER_S = 1e10, 4e9  # of one slow core, so that the work is over- rather than underestimated
_BYTES_MOVED = 8  # for an element of fp32: read and written once


@metric("factor", needs_gpu=False)
def micro_batch_growth_factor(m: Measured) -> Value:
    """Factor by which micro-batches can grow if there are as many times fewer of them: the largest divisor of the
    accumulation steps, up to 16, for which nine tenths of the device memory suffice. Without a GPU, or if memory is
    unknown, all fit.
    """
    steps, room = accumulation_steps(m), _memory_growth(m)
    if isinstance(steps, Unknown):
        return steps
    whole = max(round(float(steps)), 1)
    return float(max(k for k in range(1, MOST_GROWTH + 1) if whole % k == 0 and k <= max(room, 1.0)))


def _memory_growth(m: Measured) -> float:
    """Factor by which memory that grows with the batch may grow; infinite if unknown or without a GPU."""
    if m.without_gpu:
        return inf
    peak, total, states = memory_peak_bytes(m), memory_total_bytes(m), model_state_bytes(m)
    if isinstance(peak, Unknown) or isinstance(total, Unknown):
        return inf
    fixed = 0.0 if isinstance(states, Unknown) else min(float(states), MOST_STATES * float(peak))
    return (FILLED * float(total) - fixed) / max(float(peak) - fixed, 1.0)


@metric("count", needs_gpu=False)
def grown_micro_batch(m: Measured) -> Value:
    """Samples of a micro-batch that is micro_batch_growth_factor times as large."""
    factor, batch = micro_batch_growth_factor(m), micro_batch_size(m)
    if isinstance(factor, Unknown) or isinstance(batch, Unknown):
        return factor if isinstance(factor, Unknown) else batch
    return round(float(factor) * float(batch))


@metric("count", needs_gpu=False)
def shrunk_accumulation_steps(m: Measured) -> Value:
    """Micro-batches of an optimizer step that hold its samples with grown_micro_batch."""
    factor, steps = micro_batch_growth_factor(m), accumulation_steps(m)
    if isinstance(factor, Unknown) or isinstance(steps, Unknown):
        return factor if isinstance(factor, Unknown) else steps
    return round(float(steps) / float(factor))


@metric("share", STEP, needs_gpu=False)
def micro_batch_overhead_share(m: Measured) -> Value:
    """Share of the step that micro-batches take however few samples they have. On a GPU: the device idles for Python,
    dispatch and launches. Without one: Python, dispatch, and operators beyond the time of their arithmetic and bytes on
    a slow core.
    """
    if m.timeline.has_gpu:
        return m.share(*PER_LAUNCH)
    work = _work_share(m)
    if isinstance(work, Unknown):
        return work
    return m.share("python", "dispatch") + max(m.share(*OPERATORS) - work, 0.0)


@metric("factor", needs_gpu=False)
def most_operator_time_factor(m: Measured) -> Value:
    """Operator time of a step without a GPU, in micro-batches that are micro_batch_growth_factor times as large, over
    that of now in the worst case: work takes as long as in the quick calls of each operator (the upper quartile of its
    rates), the rest falls with the number of calls. The optimizer's operators are left out.
    """
    return _operator_time_factor(m, 1.0, LARGER_CALL)


@metric("factor", needs_gpu=False)
def least_operator_time_factor(m: Measured) -> Value:
    """The same in the best case: a call for several samples works at four times the rate of the quick calls of
    now, since it reads each weight once for all of them."""
    return _operator_time_factor(m, 1 / FASTER_CALL, 1.0)


def _operator_time_factor(m: Measured, of_work: float, larger: float) -> Value:
    growth = micro_batch_growth_factor(m)
    if isinstance(growth, Unknown) or not m.share(*OPERATORS):
        return growth if isinstance(growth, Unknown) else 1.0
    work = operator_work_share(m)
    if isinstance(work, Unknown):
        return work
    stays = of_work * float(work)
    return stays + (1 - stays) * min(1.0, larger / float(growth))


@metric("share", "the operators' time", needs_gpu=False)
def operator_work_share(m: Measured) -> Value:
    """The part of the CPU operators' time that grows with their tensors: what they take at the rates that the quick
    calls of the same operators reach.
    """
    known = counted(m.timeline)
    return NO_SHAPES if known is None else work_part(m, known)


@metric("share", "the operators' time", needs_gpu=False)
def pairwise_operator_share(m: Measured) -> Value:
    """The part of the CPU operators' time that compares pairs of tokens, which grows with the square of the length:
    fused attention, batched products and softmax.
    """
    return part_of_pairs(m)


@metric("share", "the Python outside operators", needs_gpu=False)
def python_once_a_step_share(m: Measured) -> Value:
    """Python outside operators that may come once in an optimizer step: what the longest stretches of a step, one fewer
    than it has micro-batches, are longer than the next. What comes in each micro-batch comes as often as there are.
    """
    steps = accumulation_steps(m)
    if isinstance(steps, Unknown):
        return steps
    pieces = m.attribution.pieces("python")
    length, of_step = pieces[:, 1] - pieces[:, 0], iv.which_holds(m.timeline.windows, pieces[:, 0])
    by_step = [np.sort(length[of_step == step])[::-1] for step in range(m.timeline.steps.count)]
    once = sum(_beyond_next(each, max(round(float(steps)), 1)) for each in by_step)
    return once / max(float(length.sum()), 1.0)


def _beyond_next(longest: Ints, count: int) -> float:
    """The excess of the first `count` - 1 descending lengths over the next one."""
    following = float(longest[count - 1]) if len(longest) >= count else 0.0
    return float((longest[: count - 1] - following).sum())


def _work_share(m: Measured) -> float | Unknown:
    """Share of the step without a GPU, unprofiled if that is known, that the arithmetic and bytes of its operators take
    on a slow core.
    """
    flops = m.flops
    if flops is None:
        return NO_SHAPES
    step_s = min(m.step_s, usual_step_ns(m) / 1e9)
    return (flops.per_step / SLOW_FLOPS_PER_S + _bytes_per_step(m) / SLOW_BYTES_PER_S) / max(step_s, 1e-9)


def _bytes_per_step(m: Measured) -> float:
    """Bytes that the innermost operators read and write, were all of their tensors of fp32."""
    rows = np.flatnonzero(m.timeline.trace.rows_of(*OPS))
    innermost = rows[nests.without_inner(nests.parents(m.timeline.trace, rows))]
    return _BYTES_MOVED * elements_per_step(m, innermost)
