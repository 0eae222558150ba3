"""Gradient reduction of data-parallel ranks: in which type, how often, during the backward pass or after it."""

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Ints, Mask
from diagnose.attribution.causes import EXPOSED
from diagnose.facts import DIAGNOSE_RUN, STEP, Unknown, Value, another_run, nothing_helps
from diagnose.formulas import share
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.run.setup import precision
from diagnose.metrics.unknowns import NO_REDUCTION
from diagnose.timeline.kernel_names import multiplies_in
from diagnose.trace.vocabulary import BACKWARD, OPS, REDUCER

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


def _micro_steps(m: Measured) -> tuple[Mask, int] | Unknown:
    """Whether the gradients are reduced in each forward pass of whole updates, and the number of updates."""
    starts = m.ranges(FORWARD)[:, 0]
    if not len(starts):
        return Unknown(
            "the trace has no forward range of DDP or FSDP", nothing_helps("the model is wrapped in neither")
        )
    updates = m.timeline.optimizer_steps[:, 0]
    if not len(updates):
        return Unknown("the trace has no optimizer step", another_run("step a torch.optim optimizer", DIAGNOSE_RUN))
    sent = _sent_from(m)
    until = np.append(starts[1:], np.iinfo(np.int64).max)
    synced = _any_inside(sent, starts, until)
    closes = np.flatnonzero(_any_inside(updates, starts, until))
    if len(closes) < 2:
        return Unknown(
            "fewer than two optimizer steps with their forward passes", another_run("capture three steps or more")
        )
    whole = synced[closes[0] + 1 : closes[-1] + 1]
    return whole, len(closes) - 1


def _sent_from(m: Measured) -> Ints:
    """Instants of the host at which gradients are reduced; without a GPU those at which DDP's reducer works on them."""
    if m.timeline.has_gpu:
        return m.timeline.gpu.launch_start[m.messages.activity[m.messages.reduces_gradients]]
    return m.timeline.trace.ts[m.timeline.rows_matching(REDUCER, *OPS)]


def _any_inside(times: Ints, start: Ints, end: Ints) -> Mask:
    ordered = np.sort(times)
    return np.asarray(np.searchsorted(ordered, end) > np.searchsorted(ordered, start))


@metric("count", needs_gpu=False)
def micro_steps_per_update(m: Measured) -> Value:
    """Forward passes of the wrapped model for each optimizer step, counted in the trace."""
    micro_steps = _micro_steps(m)
    return micro_steps if isinstance(micro_steps, Unknown) else len(micro_steps[0]) / micro_steps[1]


@metric("count", needs_gpu=False)
def reduced_micro_steps_per_update(m: Measured) -> Value:
    """Forward passes of the wrapped model whose gradients are reduced, for each optimizer step; one is enough."""
    micro_steps = _micro_steps(m)
    return micro_steps if isinstance(micro_steps, Unknown) else int(micro_steps[0].sum()) / micro_steps[1]


@metric("share", STEP)
def overlap_room_share(m: Measured) -> Value:
    """Kernels of the backward pass that overlap with no collective: the most that can still be hidden."""
    backward = m.kernels & m.timeline.launched_under(BACKWARD)
    if not backward.any():
        return NO_BACKWARD
    gpu, every = m.timeline.gpu, np.ones(len(m.messages.activity), bool)
    busy = iv.intervals(gpu.start[backward], gpu.end[backward])
    return m.pieces_share(iv.subtract(busy, m.messages.when(every)))
