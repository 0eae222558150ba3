"""Kernels of a phase of the step: the optimizer, clipping, recomputation, gradients taken out of buckets."""

import numpy as np

from diagnose import intervals as iv
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
CHECKPOINT = rf"{BACKWARD}: CheckpointFunctionBackward$"  # of torch, Megatron and DeepSpeed alike


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

    Recognised by ranges of torch.utils.checkpoint if stacks were recorded, else by operators that only a forward pass
    calls: everything from the first to the last of them inside one function of the backward pass; and by reentrant
    checkpoints, which run forward before they call the backward pass of their block.
    """
    spans = m.once(recompute_spans)
    return spans if isinstance(spans, Unknown) else m.kernels & iv.holds(spans, m.timeline.gpu.launch_start)


def recompute_spans(m: Measured) -> iv.Intervals | Unknown:
    """The instants on the host at which a forward pass runs again; `recomputed` explains how they are recognised."""
    line = m.timeline
    stacks = line.rows_matching(RECOMPUTE, *PYTHON)
    if len(stacks):
        return iv.intervals(line.trace.ts[stacks], line.trace.ends(stacks))
    backward = line.rows_matching(BACKWARD, *ANNOTATIONS)
    if not len(backward):
        return Unknown("the trace marks no backward pass", another_run("capture CPU activities of an eager model"))
    return iv.union(_forward_spans(m, backward), _reentrant_spans(m, backward))


def _forward_spans(m: Measured, backward: Ints) -> iv.Intervals:
    trace = m.timeline.trace
    forward = m.timeline.rows_matching(FORWARD_ONLY, *ANNOTATIONS)
    around = owners.around(trace, backward, forward)
    forward, around = forward[around >= 0], around[around >= 0]
    begin, end = trace.ts[forward], trace.ends(forward)
    spans = [(begin[around == row].min(), end[around == row].max()) for row in np.unique(around)]
    return iv.intervals(*np.array(spans, np.int64).reshape(-1, 2).T)


def _reentrant_spans(m: Measured, backward: Ints) -> iv.Intervals:
    """Intervals from the begin of each checkpoint to the first function of the backward pass that it calls."""
    trace, checkpoints = m.timeline.trace, m.timeline.rows_matching(CHECKPOINT, *ANNOTATIONS)
    begin, end = trace.ts[checkpoints], trace.ends(checkpoints)
    inside = owners.around(trace, checkpoints, backward)
    nested = np.sort(trace.ts[backward[(inside >= 0) & (inside != backward)]])
    following = np.append(nested, np.iinfo(np.int64).max)[np.searchsorted(nested, begin)]
    return iv.intervals(begin, np.minimum(end, following))
