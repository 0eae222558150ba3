"""Least bytes that one operator call must move between memory and the device, by operator name.

Every argument is read once and every result is written once, at their element types. That is a lower bound: a kernel
that reads its input twice, spills or converts moves more, so FLOPs over these bytes is an upper bound of the arithmetic
intensity, and these bytes over a kernel's time a lower bound of its bandwidth. It fails where operands already lie in
the cache, when a kernel can be faster than memory. What else the model leaves out:

- statistics of normalisations, random states and the results of reductions and pooling, which are small;
- lookups (embedding, gather, index_select) move the rows they return, not the table, and repeated rows count each time;
- lists of tensors (`_foreach_*`, `cat`, fused optimizers) have no recorded element type: the kernel's name gives it;
- arguments of the `out=` form beyond an operator's inputs are results, not inputs.

An operator that is not in the tables has unknown traffic, never none.
"""

from collections.abc import Callable
from math import prod

from diagnose.roofline.calls import ITEM_BYTES, SCALAR_TYPE_BYTES, Call, Dims
from diagnose.roofline.flop_formulas import CONVOLUTION_FORMULAS, FORMULAS, Outputs, direction, output_sizes

Traffic = Callable[[Call, Outputs], float]


def bytes_of(call: Call, outputs: Outputs) -> float | None:
    """Least bytes of one call; None for an operator that is not modelled, or whose sizes or types do not say.

    A call that would move nothing has sizes that were not understood.
    """
    model = _model(call.name)
    try:
        return (float(model(call, outputs)) or None) if model is not None else None
    except (TypeError, ValueError, IndexError, KeyError, ZeroDivisionError):
        return None


def _model(name: str) -> Traffic | None:
    if name in _MODELS:
        return _MODELS[name]
    if name in CONVOLUTION_FORMULAS:
        return _convolution
    if name in FORMULAS and direction(name):
        return _attention_backward if direction(name) == "backward" else _attention
    base = name.removeprefix("aten::")
    if not name.startswith("aten::"):
        return None
    if base.startswith("_foreach_"):
        return None if "copy" in base else _once if "zero" in base else _foreach
    plain = base.removesuffix("_")
    if plain in _POINTWISE:
        return _in_place(_POINTWISE[plain]) if base != plain else _pointwise(_POINTWISE[plain], plain in _TO_BOOL)
    return _once if base in _REDUCTIONS else None


def _reads(call: Call, *arguments: int) -> float:
    """Bytes of the tensors among the arguments; those that are absent or plain numbers cost nothing."""
    return sum(call.size_bytes(at) for at in arguments if call.is_tensor(at) or call.is_list(at))


def _once(call: Call, outputs: Outputs) -> float:
    return call.size_bytes(0)


def _twice(call: Call, outputs: Outputs) -> float:
    return 2 * call.size_bytes(0)


def _both(call: Call, outputs: Outputs) -> float:
    return _reads(call, 0, 1)


def _pointwise(inputs: int, to_bool: bool) -> Traffic:
    """`inputs` arguments, and one result of their broadcast sizes with the type they promote to."""

    def traffic(call: Call, outputs: Outputs) -> float:
        tensors = [at for at in range(min(inputs, len(call.dims))) if call.is_tensor(at)]
        result = prod(_broadcast([call.dims[at] for at in tensors])) * (1 if to_bool else _promoted(call, tensors))
        return _reads(call, *tensors) + result

    return traffic


def _in_place(inputs: int) -> Traffic:
    """`inputs` arguments, of which the first is also written."""

    def traffic(call: Call, outputs: Outputs) -> float:
        return call.size_bytes(0) + _reads(call, *range(inputs))

    return traffic


def _broadcast(sizes: list[Dims]) -> list[int]:
    rank = max((len(s) for s in sizes), default=0)
    aligned = [[1] * (rank - len(s)) + s for s in sizes]
    return [0 if 0 in along else max(along) for along in zip(*aligned, strict=True)]


def _promoted(call: Call, tensors: list[int]) -> int:
    """Bytes of an element of the result: tensors without sizes count only by kind, and half with bfloat16 is float."""
    sized = [at for at in tensors if call.dims[at]] or tensors
    types = {call.types[at] for at in sized}
    if not any(_is_float(t) for t in types) and any(_is_float(call.types[at]) for at in tensors):
        return ITEM_BYTES["float"]
    floats = {t for t in types if _is_float(t)} or types
    widest = max(ITEM_BYTES[t] for t in floats)
    return ITEM_BYTES["float"] if widest == 2 and len(floats) > 1 else widest


def _is_float(kind: str) -> bool:
    return kind.startswith("c10::") or kind in ("float", "double", "at::Half", "at::BFloat16")


def _copy(call: Call, outputs: Outputs) -> float:
    """The source at its own type is read, the destination at its own is written; it is not read."""
    return call.size_bytes(0) + call.size_bytes(1)


def _foreach(call: Call, outputs: Outputs) -> float:
    """All lists are read, and one like the first is written; norms write nothing of note."""
    read = _reads(call, *(at for at in range(len(call.dims)) if call.is_list(at)))
    return read if "norm" in call.name else read + call.size_bytes(0)


def _lists_written(*written: int) -> Traffic:
    """All lists are read; those of the given arguments are written back."""

    def traffic(call: Call, outputs: Outputs) -> float:
        read = _reads(call, *(at for at in range(len(call.dims)) if call.is_list(at)))
        return read + _reads(call, *(at for at in written if call.is_list(at)))

    return traffic


def _batch_norm_backward(call: Call, outputs: Outputs) -> float:
    """Gradient and input are read, the input's gradient is written: the first two arguments, in either order."""
    return _reads(call, 0, 1) + call.size_bytes(1)


def _softmax(call: Call, outputs: Outputs) -> float:
    to_float = call.scalar(2) is True
    return call.size_bytes(0) + prod(call.dims[0]) * (ITEM_BYTES["float"] if to_float else call.item_bytes(0))


def _softmax_backward(call: Call, outputs: Outputs) -> float:
    """Gradient and result are read; the gradient of the input is written at the type that the last argument says."""
    item = SCALAR_TYPE_BYTES.get(call.scalar(3), call.item_bytes(0))
    return _reads(call, 0, 1) + prod(call.dims[0]) * item


def _nll_loss(at: int) -> Traffic:
    """One element for each target; argument `at` holds the log-probabilities, the next one the targets."""

    def traffic(call: Call, outputs: Outputs) -> float:
        return call.size_bytes(at + 1) + prod(call.dims[at + 1]) * call.item_bytes(at)

    return traffic


def _dropout(call: Call, outputs: Outputs) -> float:
    return 2 * call.size_bytes(0) + prod(call.dims[0])  # and a mask of bytes


def _gradient_like(at: int) -> Traffic:
    """All tensors are read, and a gradient of the size of argument `at` is written."""

    def traffic(call: Call, outputs: Outputs) -> float:
        read = _reads(call, *(i for i in range(len(call.dims)) if call.is_tensor(i)))
        return read + call.size_bytes(at)

    return traffic


def _embedding(call: Call, outputs: Outputs) -> float:
    rows = prod(call.dims[1])
    return call.size_bytes(1) + 2.0 * rows * call.dims[0][-1] * call.item_bytes(0)


def _embedding_bag(call: Call, outputs: Outputs) -> float:
    rows, bags = prod(call.dims[1]), prod(call.dims[2])
    return call.size_bytes(1) + (rows + bags) * call.dims[0][-1] * float(call.item_bytes(0))


def _index_select(call: Call, outputs: Outputs) -> float:
    sizes, at = call.dims[0], call.scalar(1)
    rows = prod(call.dims[2])
    return call.size_bytes(2) + 2.0 * rows * prod(sizes) / sizes[at] * call.item_bytes(0)


def _gather(call: Call, outputs: Outputs) -> float:
    return call.size_bytes(2) + 2.0 * prod(call.dims[2]) * call.item_bytes(0)


def _product(first: int, out_dtype: int | None = None) -> Traffic:
    """A product of arguments `first` and `first + 1`; argument 0 is added where `first` is 1, unless beta is 0."""

    def traffic(call: Call, outputs: Outputs) -> float:
        a, b = call.dims[first], call.dims[first + 1]
        result = prod(a[:-1]) * (b[-1] if len(b) > 1 else 1)
        code = None if out_dtype is None else call.scalar(out_dtype)
        item = SCALAR_TYPE_BYTES[code] if code is not None else call.item_bytes(first)
        added = 0.0 if first == 0 or call.scalar(first + 2) == 0 else call.size_bytes(0)
        return _reads(call, first, first + 1) + added + result * item

    return traffic


def _grouped(out_dtype: int, offsets: int) -> Traffic:
    def traffic(call: Call, outputs: Outputs) -> float:
        a, b = call.dims[0], call.dims[1]
        groups = prod(call.dims[offsets]) if len(a) == len(b) == 2 else a[0] if len(a) == len(b) == 3 else 1
        code = call.scalar(out_dtype)
        item = SCALAR_TYPE_BYTES[code] if code is not None else call.item_bytes(0)
        return _reads(call, 0, 1) + float(groups * a[-2] * b[-1] * item)

    return traffic


def _convolution(call: Call, outputs: Outputs) -> float:
    """Input, weight and bias are read and the result is written; gradients swap result and arguments."""
    if "backward" not in call.name:
        item = call.item_bytes(0)
        return _reads(call, 0, 1, 2) + float(prod(output_sizes(call, outputs)) * item)
    grad, x = (0, 1) if call.name != "aten::cudnn_convolution_backward" else (1, 0)
    mask = call.scalar(len(call.concrete) - 1)
    to_input, to_weight = (bool(m) for m in mask[:2]) if isinstance(mask, list) else (True, True)
    traffic = call.size_bytes(grad)
    traffic += (call.size_bytes(2) + call.size_bytes(x)) * to_input
    return traffic + (call.size_bytes(x) + call.size_bytes(2)) * to_weight


def _attention(call: Call, outputs: Outputs) -> float:
    """Queries, keys and values are read; a result like the queries, and a float for each of their rows, are written."""
    query, value = call.dims[0], call.dims[2]
    rows = prod(query[:-1])
    return _reads(call, 0, 1, 2) + rows * value[-1] * call.item_bytes(0) + 4.0 * rows


def _attention_backward(call: Call, outputs: Outputs) -> float:
    """What the forward pass read and wrote, and the result's gradient, are read; three gradients are written."""
    rows = prod(call.dims[1][:-1])
    return 2 * _reads(call, 0, 1, 2, 3) + 4.0 * rows


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
    "aten::mm": _product(0),
    "aten::_scaled_mm": _product(0, 6),
    "aten::_scaled_mm_v2": _product(0, 9),
    "aten::addmm": _product(1),
    "aten::addmm_": _product(1),
    "aten::_addmm_activation": _product(1),
    "aten::bmm": _product(0),
    "aten::baddbmm": _product(1),
    "aten::baddbmm_": _product(1),
    "aten::mv": _product(0),
    "aten::addmv": _product(1),
    "aten::addmv_": _product(1),
    "aten::_grouped_mm": _grouped(4, 2),
    "aten::_scaled_grouped_mm": _grouped(7, 4),
    "aten::dot": _both,
    "aten::vdot": _both,
    "aten::copy_": _copy,
    "aten::cat": _twice,
    "aten::_cat": _twice,
    "aten::stack": _twice,
    "aten::fill_": _once,
    "aten::zero_": _once,
    "aten::normal_": _once,
    "aten::uniform_": _once,
    "aten::bernoulli_": _once,
    "aten::random_": _once,
    "aten::_fused_adam_": _lists_written(0, 2, 3, 4),
    "aten::_fused_adamw_": _lists_written(0, 2, 3, 4),
    "aten::_fused_sgd_": _lists_written(0, 2),
    "aten::_fused_adagrad_": _lists_written(0, 2),
    "aten::_amp_foreach_non_finite_check_and_unscale_": _lists_written(0),
    "aten::native_layer_norm": _twice,
    "aten::_fused_rms_norm": _twice,
    "aten::native_batch_norm": _twice,
    "aten::cudnn_batch_norm": _twice,
    "aten::miopen_batch_norm": _twice,
    "aten::native_group_norm": _twice,
    "aten::native_layer_norm_backward": _batch_norm_backward,
    "aten::_fused_rms_norm_backward": _batch_norm_backward,
    "aten::native_batch_norm_backward": _batch_norm_backward,
    "aten::cudnn_batch_norm_backward": _batch_norm_backward,
    "aten::miopen_batch_norm_backward": _batch_norm_backward,
    "aten::native_group_norm_backward": _batch_norm_backward,
    "aten::_softmax": _softmax,
    "aten::_log_softmax": _softmax,
    "aten::_softmax_backward_data": _softmax_backward,
    "aten::_log_softmax_backward_data": _softmax_backward,
    "aten::nll_loss_forward": _nll_loss(0),
    "aten::nll_loss_backward": _nll_loss(1),
    "aten::native_dropout": _dropout,
    "aten::max_pool2d_with_indices_backward": _gradient_like(1),
    "aten::avg_pool2d_backward": _gradient_like(1),
    "aten::embedding": _embedding,
    "aten::embedding_dense_backward": _both,
    "aten::_embedding_bag": _embedding_bag,
    "aten::index_select": _index_select,
    "aten::gather": _gather,
}
