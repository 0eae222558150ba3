"""Least bytes that one operator call must move between memory and the device, by operator name.

Every argument is read once and every result is written once, at their element types. That is a lower bound: a kernel
that reads its input twice, spills or converts moves more, so FLOPs over these bytes is an upper bound of the arithmetic
intensity, and these bytes over a kernel's time a lower bound of its bandwidth. It fails if operands are already in the
cache, since a kernel can then be faster than memory. The model also leaves out:

- statistics of normalisations, random states and the results of reductions and pooling, which are small;
- lookups (embedding, gather, index_select) move the rows they return, not the table, and repeated rows count each time;
- lists of tensors (`_foreach_*`, `cat`, fused optimizers) have no recorded element type: the kernel's name gives it;
- arguments of the `out=` form beyond an operator's inputs are results, not inputs.

An operator that is not in the tables has unknown traffic, never none.
"""

from diagnose.roofline import traffic_formulas as moves
from diagnose.roofline.calls import OperatorCall
from diagnose.roofline.flop_formulas import CONVOLUTION_FORMULAS, FORMULAS, Outputs, direction
from diagnose.roofline.traffic_formulas import Traffic

MOST_BYTES = 1e16


def bytes_of(call: OperatorCall, outputs: Outputs) -> float | None:
    """Least bytes of one call; None for an operator that is not modelled, or if its sizes or types are insufficient.

    A result of zero bytes, or more than any memory holds, means that the sizes were misread: None, too.
    """
    model = _model(call.name)
    try:
        moved = 0.0 if model is None else float(model(call, outputs))
    except (TypeError, ValueError, IndexError, KeyError, ArithmeticError):
        return None
    return moved if 0 < moved <= MOST_BYTES else None


def _model(name: str) -> Traffic | None:
    if name in _MODELS:
        return _MODELS[name]
    if name in CONVOLUTION_FORMULAS:
        return moves.convolution
    if name in FORMULAS and direction(name):
        return moves.attention_backward if direction(name) == "backward" else moves.attention
    base = name.removeprefix("aten::")
    if not name.startswith("aten::"):
        return None
    if base.startswith("_foreach_"):
        return None if "copy" in base else moves.once if "zero" in base else moves.foreach
    plain = base.removesuffix("_")
    if plain in _POINTWISE:
        inputs = _POINTWISE[plain]
        return moves.in_place(inputs) if base != plain else moves.pointwise(inputs, plain in _TO_BOOL)
    return moves.once if base in _REDUCTIONS else None


# Operators by how many of their first arguments are inputs; with a trailing underscore they work in place.
_UNARY = """
abs neg sqrt rsqrt exp exp2 expm1 log log2 log1p sin cos tan tanh sigmoid erf erfc reciprocal sign floor ceil round
trunc frac square relu relu6 gelu silu mish elu hardtanh hardswish hardsigmoid leaky_relu softplus log_sigmoid logit
bitwise_not logical_not isnan isinf isfinite nan_to_num triu tril clone contiguous cumsum cumprod flip roll
"""
_BINARY = """
add sub rsub mul div true_divide floor_divide remainder fmod pow maximum minimum fmax fmin atan2 copysign hypot xlogy
eq ne lt le gt ge bitwise_and bitwise_or bitwise_xor logical_and logical_or logical_xor masked_fill threshold
clamp_min clamp_max threshold_backward gelu_backward silu_backward sigmoid_backward tanh_backward hardtanh_backward
leaky_relu_backward hardswish_backward elu_backward softplus_backward native_dropout_backward mse_loss smooth_l1_loss
"""
_COMPARISONS = "eq ne lt le gt ge isnan isinf isfinite logical_and logical_or logical_not logical_xor"
_TERNARY = "where addcmul addcdiv lerp clamp mse_loss_backward"
_TO_BOOL = _COMPARISONS.split()
_POOLING = "max_pool2d_with_indices max_pool3d_with_indices avg_pool2d avg_pool3d _adaptive_avg_pool2d"
_REDUCTIONS = f"""
sum mean amax amin max min argmax argmin prod any all norm linalg_vector_norm std var var_mean logsumexp count_nonzero
{_POOLING}
""".split()
_POINTWISE = {
    **dict.fromkeys(_UNARY.split(), 1),
    **dict.fromkeys(_BINARY.split(), 2),
    **dict.fromkeys(_TERNARY.split(), 3),
}
_MODELS: dict[str, Traffic] = {
    "aten::mm": moves.product(0),
    "aten::_scaled_mm": moves.product(0, 6),
    "aten::_scaled_mm_v2": moves.product(0, 9),
    "aten::addmm": moves.product(1),
    "aten::addmm_": moves.product(1),
    "aten::_addmm_activation": moves.product(1),
    "aten::bmm": moves.product(0),
    "aten::baddbmm": moves.product(1),
    "aten::baddbmm_": moves.product(1),
    "aten::mv": moves.product(0),
    "aten::addmv": moves.product(1),
    "aten::addmv_": moves.product(1),
    "aten::_grouped_mm": moves.grouped(4, 2),
    "aten::_scaled_grouped_mm": moves.grouped(7, 4),
    "aten::dot": moves.both,
    "aten::vdot": moves.both,
    "aten::copy_": moves.copy,
    "aten::cat": moves.twice,
    "aten::_cat": moves.twice,
    "aten::stack": moves.twice,
    "aten::fill_": moves.once,
    "aten::zero_": moves.once,
    "aten::normal_": moves.once,
    "aten::uniform_": moves.once,
    "aten::bernoulli_": moves.once,
    "aten::random_": moves.once,
    "aten::_fused_adam_": moves.lists_written(0, 2, 3, 4),
    "aten::_fused_adamw_": moves.lists_written(0, 2, 3, 4),
    "aten::_fused_sgd_": moves.lists_written(0, 2),
    "aten::_fused_adagrad_": moves.lists_written(0, 2),
    "aten::_amp_foreach_non_finite_check_and_unscale_": moves.lists_written(0),
    "aten::native_layer_norm": moves.twice,
    "aten::_fused_rms_norm": moves.twice,
    "aten::native_batch_norm": moves.twice,
    "aten::cudnn_batch_norm": moves.twice,
    "aten::miopen_batch_norm": moves.twice,
    "aten::native_group_norm": moves.twice,
    "aten::native_layer_norm_backward": moves.batch_norm_backward,
    "aten::_fused_rms_norm_backward": moves.batch_norm_backward,
    "aten::native_batch_norm_backward": moves.batch_norm_backward,
    "aten::cudnn_batch_norm_backward": moves.batch_norm_backward,
    "aten::miopen_batch_norm_backward": moves.batch_norm_backward,
    "aten::native_group_norm_backward": moves.batch_norm_backward,
    "aten::_softmax": moves.softmax,
    "aten::_log_softmax": moves.softmax,
    "aten::_softmax_backward_data": moves.softmax_backward,
    "aten::_log_softmax_backward_data": moves.softmax_backward,
    "aten::nll_loss_forward": moves.nll_loss(0),
    "aten::nll_loss_backward": moves.nll_loss(1),
    "aten::native_dropout": moves.dropout,
    "aten::max_pool2d_with_indices_backward": moves.gradient_like(1),
    "aten::avg_pool2d_backward": moves.gradient_like(1),
    "aten::embedding": moves.embedding,
    "aten::embedding_dense_backward": moves.both,
    "aten::_embedding_bag": moves.embedding_bag,
    "aten::index_select": moves.index_select,
    "aten::gather": moves.gather,
}
