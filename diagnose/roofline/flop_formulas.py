"""Floating-point operations of one operator call, by operator name.

It covers matrix products, convolutions and scaled-dot-product attention, forward and backward: 2 FLOPs for each
multiply-add, attention without a causal discount, as `torch.utils.flop_counter` counts them. Only leaves are in the
table: `aten::linear`, `aten::matmul` and `aten::einsum` run as one of them. A convolution is counted as the direct
algorithm, so Winograd and FFT kernels do fewer operations than counted.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from diagnose.roofline.calls import Dims, OperatorCall

Outputs = dict[str, Dims]
MOST_FLOPS = 1e18  # of one call; no device does as many while anybody waits
Formula = Callable[[OperatorCall, Outputs], float]


def flops_of(call: OperatorCall, outputs: Outputs) -> float | None:
    """FLOPs of one call; None for an operator that is not counted, or if its sizes are insufficient."""
    formula = FORMULAS.get(call.name)
    try:
        flops = 0.0 if formula is None else float(formula(call, outputs))
    except (TypeError, ValueError, IndexError, KeyError, ArithmeticError):
        return None
    return flops if formula is not None and 0 <= flops <= MOST_FLOPS else None


def causal_share(call: OperatorCall) -> float:
    """Share of the counted FLOPs that causal attention needs: (T + 1) / 2T for T tokens; 1 if it is not causal.

    Causal attention of unequal query and key lengths is not discounted, since its mask depends on the alignment; nor is
    a sliding window.
    """
    if call.name not in _IS_CAUSAL or not call.scalar(_IS_CAUSAL[call.name]):
        return 1.0
    formula = FORMULAS[call.name]
    first = 1 if direction(call.name) == "backward" else 0
    tokens = 2 if formula in (_HEADS_FIRST, _HEADS_FIRST_BACKWARD) else 1
    query, key = call.sizes(first)[tokens:], call.sizes(first + 1)[tokens:]
    return (query[0] + 1) / (2 * query[0]) if query and query[0] and query[:1] == key[:1] else 1.0


def direction(name: str) -> str:
    """Whether a convolution or attention operator computes "forward" or gradients ("backward"); "" for others."""
    if name not in FORMULAS or name in GEMMS:
        return ""
    return "backward" if "backward" in name or name.endswith("::bwd") else "forward"


def _mm(call: OperatorCall, outputs: Outputs) -> float:
    return _product(call.dims[0], call.dims[1], _packed(call))


def _addmm(call: OperatorCall, outputs: Outputs) -> float:
    return _product(call.dims[1], call.dims[2], 1)


def _product(a: Dims, b: Dims, packed: int) -> float:
    (m, k), (k2, n) = a, b
    return 2.0 * m * _same(k, k2) * packed * n


def _bmm(call: OperatorCall, outputs: Outputs) -> float:
    return _batched(call.dims[0], call.dims[1])


def _baddbmm(call: OperatorCall, outputs: Outputs) -> float:
    return _batched(call.dims[1], call.dims[2])


def _batched(a: Dims, b: Dims) -> float:
    (batch, m, k), (_, k2, n) = a, b
    return 2.0 * batch * m * _same(k, k2) * n


def _grouped(call: OperatorCall, outputs: Outputs) -> float:
    """Groups that share out the rows, the columns or the inner size of one product; separate products when both are 3D.

    Rows beyond the last group's end are counted too: the offsets' values are not recorded.
    """
    a, b = call.dims[0], call.dims[1]
    groups = a[0] if len(a) == len(b) == 3 else 1
    return 2.0 * groups * a[-2] * _same(a[-1], b[-2]) * _packed(call) * b[-1]


def _packed(call: OperatorCall) -> int:
    """Elements along the inner size for each one recorded: 4-bit types hold two in a byte."""
    return 2 if call.types and "Float4" in call.types[0] else 1


def _mv(at: int) -> Formula:
    def flops(call: OperatorCall, outputs: Outputs) -> float:
        (m, k), (k2,) = call.dims[at], call.dims[at + 1]
        return 2.0 * m * _same(k, k2)

    return flops


def _dot(call: OperatorCall, outputs: Outputs) -> float:
    return 2.0 * _same(call.dims[0][0], call.dims[1][0])


def _attention(*, heads_first: bool, lengths: int = 0) -> Formula:
    """Q K^T and P V for every query head; `lengths` is the argument that only ragged batches have."""

    def flops(call: OperatorCall, outputs: Outputs) -> float:
        scores, width, value_width = _scores(call, 0, heads_first, lengths)
        return 2.0 * scores * (width + value_width)

    return flops


def _attention_backward(*, heads_first: bool, lengths: int = 0) -> Formula:
    """Five products: the scores again, dP, dV, dQ and dK."""

    def flops(call: OperatorCall, outputs: Outputs) -> float:
        scores, width, value_width = _scores(call, 1, heads_first, lengths)
        return 2.0 * scores * (3 * width + 2 * value_width)

    return flops


def _scores(call: OperatorCall, first: int, heads_first: bool, lengths: int) -> tuple[int, int, int]:
    """Number of attention scores and the widths of queries and values.

    Ragged batches (sequences laid end to end) are refused: their lengths are values, which a trace does not hold.
    """
    query, key, value = call.dims[first : first + 3]
    if lengths and len(call.dims) > lengths and call.dims[lengths]:
        raise ValueError("the lengths of a ragged batch are not recorded")
    batch, one, two, width = query
    heads, tokens = (one, two) if heads_first else (two, one)
    return batch * heads * tokens * key[2 if heads_first else 1], _same(width, key[3]), value[3]


class _Layout(NamedTuple):
    """The arguments of a convolution operator that hold its padding, stride, dilation and whether it is transposed."""

    padding: int
    stride: int
    dilation: int
    transposed: int | None = None


def _convolution(call: OperatorCall, outputs: Outputs) -> float:
    """Every position of the output meets the whole weight; of a transposed convolution, every position of the input."""
    x, w = call.dims[0], call.dims[1]
    positions = x if _is_transposed(call) else output_sizes(call, outputs)
    return 2.0 * x[0] * math.prod(w) * math.prod(positions[2:])


def output_sizes(call: OperatorCall, outputs: Outputs) -> Dims:
    """Sizes of the result of a forward convolution; KeyError if neither its arguments nor a gradient give them."""
    x, w = call.dims[0], call.dims[1]
    layout = _LAYOUTS[call.name]
    settings = [call.scalar(at) for at in layout[:3]]
    if _is_transposed(call) or not all(isinstance(v, list) and v for v in settings):
        return outputs[key(x, w)]
    n = len(x) - 2
    pad, step, spread = (v * n if len(v) == 1 else v for v in settings)
    spatial = [(x[2 + i] + 2 * pad[i] - spread[i] * (w[2 + i] - 1) - 1) // step[i] + 1 for i in range(n)]
    return [x[0], w[0], *spatial]


def _is_transposed(call: OperatorCall) -> bool:
    at = _LAYOUTS[call.name].transposed
    return call.name.endswith("_transpose") or (at is not None and call.scalar(at) is True)


def _convolution_backward(call: OperatorCall, outputs: Outputs) -> float:
    grad, x, w = call.dims[:3]
    mask = gradient_mask(call)
    wanted = 2 if mask is None else sum(map(bool, mask[:2]))
    positions = x if call.scalar(7) is True else grad
    return 2.0 * wanted * grad[0] * math.prod(w) * math.prod(positions[2:])


def _cudnn_backward(call: OperatorCall, outputs: Outputs) -> float:
    grad, w = call.dims[1], call.dims[2]
    return 4.0 * grad[0] * math.prod(w) * math.prod(grad[2:])


def gradient_mask(call: OperatorCall) -> list[Any] | None:
    """Flags of a convolution's gradients by input, weight and bias; None if values are not recorded: then two count."""
    mask = call.scalar(len(call.concrete) - 1)
    return mask if isinstance(mask, list) and len(mask) > 1 else None


def key(x: Dims, w: Dims) -> str:
    """The key of a convolution in `convolution_outputs`."""
    return f"{x}|{w}"


def _same(a: int, b: int) -> int:
    if a != b:
        raise ValueError("inner dimensions differ")
    return a


_HEADS_FIRST = _attention(heads_first=True)
_TOKENS_FIRST = _attention(heads_first=False)
_HEADS_FIRST_BACKWARD = _attention_backward(heads_first=True)
_TOKENS_FIRST_BACKWARD = _attention_backward(heads_first=False)

GEMM_FORMULAS: dict[str, Formula] = {
    "aten::mm": _mm,
    "aten::_scaled_mm": _mm,
    "aten::_scaled_mm_v2": _mm,
    "aten::_int_mm": _mm,
    "aten::addmm": _addmm,
    "aten::addmm_": _addmm,
    "aten::_addmm_activation": _addmm,
    "aten::bmm": _bmm,
    "aten::baddbmm": _baddbmm,
    "aten::baddbmm_": _baddbmm,
    "aten::addbmm": _baddbmm,
    "aten::_grouped_mm": _grouped,
    "aten::_scaled_grouped_mm": _grouped,
    "aten::_scaled_grouped_mm_v2": _grouped,
    "aten::mv": _mv(0),
    "aten::addmv": _mv(1),
    "aten::addmv_": _mv(1),
    "aten::dot": _dot,
    "aten::vdot": _dot,
}
_LAYOUTS = {
    "aten::convolution": _Layout(4, 3, 5, 6),
    "aten::_convolution": _Layout(4, 3, 5, 6),
    "aten::convolution_overrideable": _Layout(4, 3, 5, 6),
    "aten::cudnn_convolution": _Layout(2, 3, 4),
    "aten::cudnn_convolution_relu": _Layout(4, 3, 5),
    "aten::cudnn_convolution_add_relu": _Layout(6, 5, 7),
    "aten::cudnn_convolution_transpose": _Layout(2, 4, 5),
    "aten::miopen_convolution": _Layout(3, 4, 5),
    "aten::miopen_depthwise_convolution": _Layout(3, 4, 5),
    "aten::miopen_convolution_relu": _Layout(4, 3, 5),
    "aten::miopen_convolution_transpose": _Layout(3, 5, 6),
    "aten::mkldnn_convolution": _Layout(3, 4, 5),
    "aten::_conv_depthwise2d": _Layout(5, 4, 6),
    "aten::conv_depthwise3d": _Layout(5, 4, 6),
}
CONVOLUTION_FORMULAS: dict[str, Formula] = {
    **dict.fromkeys(_LAYOUTS, _convolution),
    "aten::convolution_backward": _convolution_backward,
    "aten::convolution_backward_overrideable": _convolution_backward,
    "aten::cudnn_convolution_backward": _cudnn_backward,
}
ATTENTION_FORMULAS: dict[str, Formula] = {
    "aten::_scaled_dot_product_flash_attention": _HEADS_FIRST,
    "aten::_scaled_dot_product_efficient_attention": _HEADS_FIRST,
    "aten::_scaled_dot_product_cudnn_attention": _HEADS_FIRST,
    "aten::_scaled_dot_product_fused_attention_overrideable": _HEADS_FIRST,
    "aten::_scaled_dot_product_flash_attention_for_cpu": _HEADS_FIRST,
    "aten::_cudnn_attention_forward": _HEADS_FIRST,
    "aten::_flash_attention_forward": _TOKENS_FIRST,
    "aten::_efficient_attention_forward": _attention(heads_first=False, lengths=4),
    "flash_attn::_flash_attn_forward": _TOKENS_FIRST,
    "flash_attn_3::_flash_attn_forward": _TOKENS_FIRST,
    "flash_attn_3::fwd": _TOKENS_FIRST,
    "FlashAttnFunc": _TOKENS_FIRST,
    "aten::_scaled_dot_product_flash_attention_backward": _HEADS_FIRST_BACKWARD,
    "aten::_scaled_dot_product_efficient_attention_backward": _HEADS_FIRST_BACKWARD,
    "aten::_scaled_dot_product_cudnn_attention_backward": _HEADS_FIRST_BACKWARD,
    "aten::_scaled_dot_product_fused_attention_overrideable_backward": _HEADS_FIRST_BACKWARD,
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _HEADS_FIRST_BACKWARD,
    "aten::_cudnn_attention_backward": _HEADS_FIRST_BACKWARD,
    "aten::_flash_attention_backward": _TOKENS_FIRST_BACKWARD,
    "aten::_efficient_attention_backward": _attention_backward(heads_first=False, lengths=6),
    "flash_attn::_flash_attn_backward": _TOKENS_FIRST_BACKWARD,
    "flash_attn_3::_flash_attn_backward": _TOKENS_FIRST_BACKWARD,
    "flash_attn_3::bwd": _TOKENS_FIRST_BACKWARD,
}
FORMULAS = GEMM_FORMULAS | CONVOLUTION_FORMULAS | ATTENTION_FORMULAS
GEMMS = frozenset(GEMM_FORMULAS)
_IS_CAUSAL = {  # the argument that says so: True, or for _efficient_attention_* a mask type above 0
    "aten::_scaled_dot_product_flash_attention": 4,
    "aten::_scaled_dot_product_efficient_attention": 6,
    "aten::_scaled_dot_product_cudnn_attention": 6,
    "aten::_scaled_dot_product_fused_attention_overrideable": 5,
    "aten::_scaled_dot_product_flash_attention_for_cpu": 4,
    "aten::_cudnn_attention_forward": 10,
    "aten::_flash_attention_forward": 8,
    "aten::_efficient_attention_forward": 9,
    "flash_attn::_flash_attn_forward": 5,
    "flash_attn_3::fwd": 24,
    "aten::_scaled_dot_product_flash_attention_backward": 11,
    "aten::_scaled_dot_product_efficient_attention_backward": 11,
    "aten::_scaled_dot_product_cudnn_attention_backward": 14,
    "aten::_scaled_dot_product_fused_attention_overrideable_backward": 13,
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": 7,
    "aten::_cudnn_attention_backward": 14,
    "aten::_flash_attention_backward": 11,
    "aten::_efficient_attention_backward": 14,
    "flash_attn::_flash_attn_backward": 11,
    "flash_attn_3::bwd": 16,
}
