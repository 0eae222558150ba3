"""Groups of kernels that single remedies act on, beside those that a fused kernel replaces."""

import re
from collections.abc import Iterator, Sequence

import numpy as np

from diagnose.arrays import Ints, Mask
from diagnose.facts import Unknown, another_run
from diagnose.metrics.groups import (
    NAMES,
    Group,
    by_operator,
    has_shapes,
    of_kind,
    operator_dims,
    operator_name,
    operators,
    sequences,
)
from diagnose.metrics.registry import NO_SHAPES, Measured
from diagnose.roofline import owners
from diagnose.roofline.calls import PRECISIONS, call_of
from diagnose.trace.vocabulary import ANNOTATIONS, CLIP, OPS, PYTHON

PRODUCTS = frozenset({"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"})
ALIGNED, SMALLEST_PADDED = 8, 64
MATH = r"aten::_scaled_dot_product_attention_math"
BACKWARD = r"autograd::engine::evaluate_function: "
FORWARD_ONLY = (
    r"aten::(linear|conv[123]d|batch_norm|layer_norm|rms_norm|group_norm|dropout|softmax|relu_?"
    r"|scaled_dot_product_attention)$"
)
RECOMPUTE = r"torch/utils/checkpoint\.py\(\d+\): recompute_fn"
_HALF = ("bf16", "fp16")
_FLASH_2 = re.compile(r"pytorch_flash::|(^|[^_a-z])flash_(fwd|bwd)_|flash::flash_(fwd|bwd)")
_FP32_CONVOLUTION = re.compile(r"scudnn|convolve_sgemm|engine<float|_f32f32_f32f32_f32_")
_EFFICIENT = re.compile(r"fmha_cutlass")


def weight_casts(m: Measured) -> Group:
    """Copies between fp32 and half precision of matrices that are weights: their gradients have the same sizes."""
    rows = operators(m)
    if not has_shapes(m, rows):
        return NO_SHAPES
    weights = _weight_sizes(m)
    casts = operators(m, {"aten::copy_", "aten::_to_copy"}.__contains__)
    return by_operator(m, {row for row in casts if _is_cast(m, row) and operator_dims(m, row)[0] in weights})


def _weight_sizes(m: Measured) -> set[tuple[int, ...]]:
    """Sizes of the weights of linear layers, else of the right operands of products, as they are and transposed.

    Left operands are activations and their gradients: logits, for one, are cast as matrices too.
    """
    linear = np.flatnonzero(m.timeline.matching(r"aten::linear$", *OPS) & (m.timeline.trace.shape >= 0))
    products = operators(m, lambda name: name in PRODUCTS)
    found = {dims[1] for row in linear if len(dims := operator_dims(m, int(row))) > 1}
    found = found or {dims[-1] for row in products if (dims := operator_dims(m, row))}
    return {order for dims in found if len(dims) == 2 for order in (dims, dims[::-1])}


def _is_cast(m: Measured, row: int) -> bool:
    shape = m.timeline.trace.shape[row]
    if shape < 0 or not operator_dims(m, row):
        return False
    call = call_of(operator_name(m, row), m.timeline.trace.shapes[shape])
    types = [PRECISIONS.get(name) for name, dims in zip(call.types, call.dims, strict=False) if dims]
    return len(types) == 2 and "fp32" in types and any(half in types for half in _HALF)


def misaligned_products(m: Measured) -> Group:
    """Tensor-core products of which a size of 64 or more is no multiple of 8."""
    products = operators(m, lambda name: name in PRODUCTS)
    if products and not has_shapes(m, products):
        return NO_SHAPES
    odd = {row for row in products if misaligned_sizes(m, row)}
    return by_operator(m, odd) & of_kind(m, lambda kind: kind.family == "gemm" and kind.tensor_core is not False)


def product_sizes(m: Measured, row: int) -> tuple[int, ...]:
    """Rows, inner size and columns of a matrix product, batches first; empty where they are not recorded."""
    dims = [d for d in operator_dims(m, row) if len(d) >= 2]
    if len(dims) < 2 or dims[-2][-1] != dims[-1][-2]:
        return ()
    return (*dims[-2], dims[-1][-1])


def misaligned_sizes(m: Measured, row: int) -> tuple[int, ...]:
    """The sizes of a product, batches left out, that are 64 or more and no multiple of 8."""
    return tuple(n for n in product_sizes(m, row)[-3:] if n >= SMALLEST_PADDED and n % ALIGNED)


def fp32_convolutions(m: Measured) -> Mask:
    """Convolutions in fp32 without tensor cores, as far as cuDNN's names tell."""
    return m.kernels & m.timeline.gpu.of_family("conv") & named(m, _FP32_CONVOLUTION)


def math_attention(m: Measured) -> Mask:
    """Kernels of scaled_dot_product_attention's math path, forward; its gradients run as operators of their own."""
    return m.timeline.launched_under(MATH) & m.kernels


def efficient_attention(m: Measured) -> Mask:
    """Memory-efficient attention kernels (CUTLASS)."""
    return m.kernels & named(m, _EFFICIENT)


def flash_2_attention(m: Measured) -> Mask:
    """FlashAttention-2 kernels, those that PyTorch brings included."""
    return m.kernels & named(m, _FLASH_2)


def named(m: Measured, pattern: re.Pattern[str]) -> Mask:
    """Mask of the activities whose name the pattern finds."""
    hits = np.array([pattern.search(name) is not None for name in m.timeline.trace.names], bool)
    return hits[m.timeline.trace.name[m.timeline.gpu.row]] if len(m.timeline.gpu) else np.zeros(0, bool)


def clipping(m: Measured) -> Mask:
    """Kernels launched while gradients are clipped."""
    return m.timeline.launched_under(CLIP) & m.kernels


def recomputed(m: Measured) -> Group:
    """Kernels launched by a forward pass that runs again inside the backward pass.

    Told by ranges of torch.utils.checkpoint where stacks were recorded, else by operators that only a forward pass
    calls: what runs from the first to the last of them inside one function of the backward pass.
    """
    line = m.timeline
    stacks = line.matching(RECOMPUTE, *PYTHON)
    if stacks.any():
        spans = np.stack([line.trace.ts[stacks], line.trace.ends(stacks)], 1)
    else:
        backward = np.flatnonzero(line.matching(BACKWARD, *ANNOTATIONS))
        if not len(backward):
            return Unknown("the trace marks no backward pass", another_run("capture CPU activities of an eager model"))
        spans = _forward_spans(m, backward)
    return m.kernels & _launched_in(m, spans)


def _forward_spans(m: Measured, backward: Ints) -> Ints:
    trace = m.timeline.trace
    forward = np.flatnonzero(m.timeline.matching(FORWARD_ONLY, *ANNOTATIONS))
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


def unfused_rope(m: Measured) -> Group:
    """Kernels of rotary position embeddings that rotate halves with neg and cat."""
    return sequences(m, {"aten::neg"}, _rope)


def _rope(names: Sequence[str], at: int) -> Iterator[int]:
    """Positions of the rotation whose neg is at `at`: a product before it, then cat, a product and a sum."""
    after = tuple(names[at + 1 : at + 4])
    if after == ("aten::cat", "aten::mul", "aten::add"):
        yield from range(at - 1 if at and names[at - 1] == "aten::mul" else at, at + 4)


NAMES.update(
    {
        "weight-casts": weight_casts,
        "misaligned-products": misaligned_products,
        "fp32-convolutions": fp32_convolutions,
        "math-attention": math_attention,
        "efficient-attention": efficient_attention,
        "flash-2-attention": flash_2_attention,
        "clip": clipping,
        "recomputed": recomputed,
        "unfused-rope": unfused_rope,
    }
)
