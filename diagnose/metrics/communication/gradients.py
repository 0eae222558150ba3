"""Gradient reduction of data-parallel ranks: in which type, during the backward pass or after it."""

import numpy as np

from diagnose import intervals as iv
from diagnose.attribution.causes import EXPOSED
from diagnose.facts import STEP, Unknown, Value, another_run
from diagnose.formulas import share
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.run.setup import precision
from diagnose.metrics.unknowns import NO_REDUCTION
from diagnose.timeline.kernel_names import multiplies_in
from diagnose.trace.vocabulary import BACKWARD

FORWARD = r"DistributedDataParallel\.forward|FullyShardedDataParallel\.forward|FSDP::root_pre_forward"
_HALF = ("bf16", "fp16", "fp8")
NO_BACKWARD = Unknown(
    "the trace does not show the backward pass", another_run("capture CPU and CUDA activities together")
)


@metric("bytes")
def step_gradient_bytes(m: Measured) -> Value:
    """Gradients that are reduced in a step, of those reductions whose size was recorded."""
    sizes = m.messages.bytes[m.messages.reduces_gradients & (m.messages.bytes > 0)]
    return m.timeline.steps.each(int(sizes.sum())) if len(sizes) else NO_REDUCTION


@metric("share", "the time of gradient reductions")
def fp32_reduction_share(m: Measured) -> Value:
    """Part of the gradient reductions' time in which 4 bytes are sent for each gradient."""
    sent = m.messages
    known = sent.reduces_gradients & (sent.dtype != "")
    lasts = sent.end - sent.start
    if not known.any():
        return NO_REDUCTION
    return share(lasts[known & np.isin(sent.dtype, ("float", "float32"))].sum(), lasts[known].sum()) or 0.0


@metric("flag")
def computes_in_half(m: Measured) -> Value:
    """Whether most of the time of matrix kernels is in bf16, fp16 or fp8: by shapes, names, else the record."""
    ns = sum(work.ns for work in m.roofline.matrix)
    if ns:
        return sum(work.ns for work in m.roofline.matrix if work.precision in _HALF) > 0.5 * ns
    half, full = _product_ns(m, *_HALF), _product_ns(m, "tf32", "fp32")
    if half + full:
        return half > full
    stated = precision(m)
    return stated if isinstance(stated, Unknown) else stated in _HALF


def _product_ns(m: Measured, *precisions: str) -> int:
    """Time of the matrix kernels whose names show one of the precisions."""
    gpu = m.timeline.gpu
    told = np.array([multiplies_in(kind, *precisions) for kind in gpu.kinds], bool)
    return int(m.own_time[told[gpu.kind]].sum())


def _tails(m: Measured) -> tuple[iv.Intervals, int] | Unknown:
    """Intervals from the end of the backward pass to the end of the last reduction, and the number of reductions
    ending there.
    """
    sent = m.messages
    reductions = sent.reduces_gradients & sent.in_backward
    backward = m.kernels & m.timeline.launched_under(BACKWARD)
    if not backward.any():
        return NO_BACKWARD
    if not reductions.any():
        return NO_REDUCTION
    start, end = m.timeline.gpu.start[backward], m.timeline.gpu.end[backward]
    reduced = np.flatnonzero(reductions)
    reduced = reduced[np.argsort(sent.start[reduced], kind="stable")]
    windows = m.attribution.windows
    kernels, calls = (np.searchsorted(starts, windows) for starts in (start, sent.start[reduced]))
    tails, late = [iv.EMPTY], 0
    for (begin, until), of_kernels, of_calls in zip(windows.tolist(), kernels, calls, strict=True):
        kernel_ends, reduction_ends = end[slice(*of_kernels)], sent.end[reduced[slice(*of_calls)]]
        if len(kernel_ends) and len(reduction_ends):
            tails.append(iv.clip(iv.one(int(kernel_ends.max()), int(reduction_ends.max())), begin, until))
            late += int((reduction_ends > kernel_ends.max()).sum())
    return iv.union(*tails), late


@metric("share", STEP)
def gradient_tail_share(m: Measured) -> Value:
    """Exposed communication from the last kernel of the backward pass to the end of the last gradient reduction."""
    tails = _tails(m)
    return (
        tails if isinstance(tails, Unknown) else m.pieces_share(iv.intersect(m.attribution.pieces(EXPOSED), tails[0]))
    )


@metric("count")
def tail_reductions_per_step(m: Measured) -> Value:
    """Gradient reductions that end after the backward pass; more than two mean a queue, not a late last bucket."""
    tails = _tails(m)
    return tails if isinstance(tails, Unknown) else m.timeline.steps.each(tails[1])


@metric("bytes")
def last_reduction_bytes(m: Measured) -> Value:
    """Mean size of the last gradient reduction of a step."""
    sent = m.messages
    which = sent.reduces_gradients & (sent.bytes > 0)
    steps = np.searchsorted(m.attribution.windows[:, 0], sent.start[which], side="right") - 1
    if not len(steps):
        return NO_REDUCTION
    last = np.append(steps[1:] != steps[:-1], True)
    return float(sent.bytes[which][last].mean())


@metric("share", STEP)
def overlap_room_share(m: Measured) -> Value:
    """Kernels of the backward pass that overlap with no collective: the most that can still be hidden."""
    backward = m.kernels & m.timeline.launched_under(BACKWARD)
    if not backward.any():
        return NO_BACKWARD
    gpu, every = m.timeline.gpu, np.ones(len(m.messages.activity), bool)
    busy = iv.intervals(gpu.start[backward], gpu.end[backward])
    return m.pieces_share(iv.subtract(busy, m.messages.when(every)))
