"""Kernels of a phase of the step: the optimizer, clipping, recomputation, gradients taken out of buckets."""

import numpy as np

from diagnose.arrays import Ints, Mask
from diagnose.facts import Unknown, another_run
from diagnose.metrics.kernel_groups.registry import Group, group
from diagnose.metrics.measured import Measured
from diagnose.roofline import owners
from diagnose.trace.vocabulary import ANNOTATIONS, BACKWARD, CLIP, PYTHON

COPY_BACK = r"torch\.distributed\.ddp\.reducer::copy_bucket_to_grad"
FORWARD_ONLY = (
    r"aten::(linear|conv[123]d|batch_norm|layer_norm|rms_norm|group_norm|dropout|softmax|relu_?"
    r"|scaled_dot_product_attention)$"
)
RECOMPUTE = r"torch/utils/checkpoint\.py\(\d+\): recompute_fn"


@group("optimizer")
def optimizer(m: Measured) -> Mask:
    """Kernels launched by the optimizer's step, not by a closure that the step calls."""
    return m.timeline.launched_by_optimizer & m.kernels


@group("gradient-copies")
def gradient_copies(m: Measured) -> Mask:
    """Copies, by kernel or copy engine, with which DDP takes reduced gradients out of its buckets."""
    return m.timeline.launched_under(COPY_BACK) & m.in_steps & ~m.timeline.gpu.is_communication


def copies_to_device(m: Measured) -> Mask:
    """Copies from the host to the device in the counted steps."""
    gpu = m.timeline.gpu
    return np.array([kind.sub == "HtoD" for kind in gpu.kinds], bool)[gpu.kind] & m.in_steps


@group("pageable-copies")
def pageable_copies(m: Measured) -> Mask:
    """Copies to the device from memory that is not pinned."""
    gpu, trace = m.timeline.gpu, m.timeline.trace
    return copies_to_device(m) & np.array(["Pageable" in name for name in trace.names], bool)[trace.name[gpu.row]]


@group("not-optimizer")
def optimizer_apart(m: Measured) -> Mask:
    """Kernels outside the optimizer's step."""
    return m.kernels & ~optimizer(m)


@group("clip")
def clipping(m: Measured) -> Mask:
    """Kernels launched while gradients are clipped."""
    return m.timeline.launched_under(CLIP) & m.kernels


@group("recomputed")
def recomputed(m: Measured) -> Group:
    """Kernels launched by a forward pass that runs again inside the backward pass.

    Told by ranges of torch.utils.checkpoint where stacks were recorded, else by operators that only a forward pass
    calls: what runs from the first to the last of them inside one function of the backward pass.
    """
    line = m.timeline
    stacks = line.rows_matching(RECOMPUTE, *PYTHON)
    if len(stacks):
        spans = np.stack([line.trace.ts[stacks], line.trace.ends(stacks)], 1)
    else:
        backward = line.rows_matching(BACKWARD, *ANNOTATIONS)
        if not len(backward):
            return Unknown("the trace marks no backward pass", another_run("capture CPU activities of an eager model"))
        spans = _forward_spans(m, backward)
    return m.kernels & _launched_in(m, spans)


def _forward_spans(m: Measured, backward: Ints) -> Ints:
    trace = m.timeline.trace
    forward = m.timeline.rows_matching(FORWARD_ONLY, *ANNOTATIONS)
    around = owners.around(trace, backward, forward)
    forward, around = forward[around >= 0], around[around >= 0]
    begin, end = trace.ts[forward], trace.ends(forward)
    spans = [(begin[around == row].min(), end[around == row].max()) for row in np.unique(around)]
    return np.array(spans, np.int64).reshape(-1, 2)


def _launched_in(m: Measured, spans: Ints) -> Mask:
    spans = spans[np.argsort(spans[:, 0], kind="stable")]
    if not len(spans):
        return np.zeros(len(m.timeline.gpu), bool)
    ends = np.maximum.accumulate(spans[:, 1])
    at = np.searchsorted(spans[:, 0], m.timeline.gpu.launch_start, side="right") - 1
    return (at >= 0) & (m.timeline.gpu.launch_start < ends[np.maximum(at, 0)])
