"""Least traffic of one call by kind of operator: the bytes of the tensors it reads, and of those it writes."""

from collections.abc import Callable
from math import prod

from diagnose.roofline.calls import ITEM_BYTES, SCALAR_TYPE_BYTES, Dims, OperatorCall
from diagnose.roofline.flop_formulas import Outputs, output_sizes

Traffic = Callable[[OperatorCall, Outputs], float]


def _reads(call: OperatorCall, *arguments: int) -> float:
    """Bytes of the tensors among the arguments; those that are absent or plain numbers cost nothing."""
    return sum(call.size_bytes(at) for at in arguments if call.is_tensor(at) or call.is_list(at))


def once(call: OperatorCall, outputs: Outputs) -> float:
    """The first argument is read or written."""
    return call.size_bytes(0)


def twice(call: OperatorCall, outputs: Outputs) -> float:
    """The first argument is read, and a result like it is written."""
    return 2 * call.size_bytes(0)


def both(call: OperatorCall, outputs: Outputs) -> float:
    """The first two arguments are read."""
    return _reads(call, 0, 1)


def pointwise(inputs: int, to_bool: bool) -> Traffic:
    """`inputs` arguments, and one result of their broadcast sizes with the type they promote to."""

    def traffic(call: OperatorCall, outputs: Outputs) -> float:
        tensors = [at for at in range(min(inputs, len(call.dims))) if call.is_tensor(at)]
        result = prod(_broadcast([call.dims[at] for at in tensors])) * (1 if to_bool else _promoted(call, tensors))
        return _reads(call, *tensors) + result

    return traffic


def in_place(inputs: int) -> Traffic:
    """`inputs` arguments, of which the first is also written."""

    def traffic(call: OperatorCall, outputs: Outputs) -> float:
        return call.size_bytes(0) + _reads(call, *range(inputs))

    return traffic


def _broadcast(sizes: list[Dims]) -> list[int]:
    rank = max((len(s) for s in sizes), default=0)
    aligned = [[1] * (rank - len(s)) + s for s in sizes]
    return [0 if 0 in along else max(along) for along in zip(*aligned, strict=True)]


def _promoted(call: OperatorCall, tensors: list[int]) -> int:
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


def copy(call: OperatorCall, outputs: Outputs) -> float:
    """The source at its own type is read, the destination at its own is written; it is not read."""
    return call.size_bytes(0) + call.size_bytes(1)


def foreach(call: OperatorCall, outputs: Outputs) -> float:
    """All lists are read, and one like the first is written; norms write nothing of note."""
    read = _reads(call, *(at for at in range(len(call.dims)) if call.is_list(at)))
    return read if "norm" in call.name else read + call.size_bytes(0)


def lists_written(*written: int) -> Traffic:
    """All lists are read; those of the given arguments are written back."""

    def traffic(call: OperatorCall, outputs: Outputs) -> float:
        read = _reads(call, *(at for at in range(len(call.dims)) if call.is_list(at)))
        return read + _reads(call, *(at for at in written if call.is_list(at)))

    return traffic


def batch_norm_backward(call: OperatorCall, outputs: Outputs) -> float:
    """Gradient and input are read, the input's gradient is written: the first two arguments, in either order."""
    return _reads(call, 0, 1) + call.size_bytes(1)


def softmax(call: OperatorCall, outputs: Outputs) -> float:
    """The input is read; the result is written at its type, or as float if the call asks for that."""
    to_float = call.scalar(2) is True
    return call.size_bytes(0) + prod(call.dims[0]) * (ITEM_BYTES["float"] if to_float else call.item_bytes(0))


def softmax_backward(call: OperatorCall, outputs: Outputs) -> float:
    """Gradient and result are read; the gradient of the input is written at the type that the last argument gives."""
    item = SCALAR_TYPE_BYTES.get(call.scalar(3), call.item_bytes(0))
    return _reads(call, 0, 1) + prod(call.dims[0]) * item


def nll_loss(at: int) -> Traffic:
    """One element for each target; argument `at` holds the log-probabilities, the next one the targets."""

    def traffic(call: OperatorCall, outputs: Outputs) -> float:
        return call.size_bytes(at + 1) + prod(call.dims[at + 1]) * call.item_bytes(at)

    return traffic


def dropout(call: OperatorCall, outputs: Outputs) -> float:
    """The input is read, and a result like it and a mask of bytes are written."""
    return 2 * call.size_bytes(0) + prod(call.dims[0])


def gradient_like(at: int) -> Traffic:
    """All tensors are read, and a gradient of the size of argument `at` is written."""

    def traffic(call: OperatorCall, outputs: Outputs) -> float:
        read = _reads(call, *(i for i in range(len(call.dims)) if call.is_tensor(i)))
        return read + call.size_bytes(at)

    return traffic


def embedding(call: OperatorCall, outputs: Outputs) -> float:
    """The indices and the rows that they name are read, and the rows are written."""
    rows = prod(call.dims[1])
    return call.size_bytes(1) + 2.0 * rows * call.dims[0][-1] * call.item_bytes(0)


def embedding_bag(call: OperatorCall, outputs: Outputs) -> float:
    """The indices and the rows that they name are read, and one row for each bag is written."""
    rows, bags = prod(call.dims[1]), prod(call.dims[2])
    return call.size_bytes(1) + (rows + bags) * call.dims[0][-1] * float(call.item_bytes(0))


def index_select(call: OperatorCall, outputs: Outputs) -> float:
    """The index and the slices that it names are read, and the slices are written."""
    sizes, at = call.dims[0], call.scalar(1)
    rows = prod(call.dims[2])
    return call.size_bytes(2) + 2.0 * rows * prod(sizes) / sizes[at] * call.item_bytes(0)


def gather(call: OperatorCall, outputs: Outputs) -> float:
    """The index and the elements that it names are read, and the elements are written."""
    return call.size_bytes(2) + 2.0 * prod(call.dims[2]) * call.item_bytes(0)


def product(first: int, out_dtype: int | None = None) -> Traffic:
    """A product of arguments `first` and `first + 1`; argument 0 is added if `first` is 1, unless beta is 0."""

    def traffic(call: OperatorCall, outputs: Outputs) -> float:
        a, b = call.dims[first], call.dims[first + 1]
        result = prod(a[:-1]) * (b[-1] if len(b) > 1 else 1)
        code = None if out_dtype is None else call.scalar(out_dtype)
        item = SCALAR_TYPE_BYTES[code] if code is not None else call.item_bytes(first)
        added = 0.0 if first == 0 or call.scalar(first + 2) == 0 else call.size_bytes(0)
        return _reads(call, first, first + 1) + added + result * item

    return traffic


def grouped(out_dtype: int, offsets: int) -> Traffic:
    """A product for each group; arguments `out_dtype` and `offsets` give the result's type and the groups."""

    def traffic(call: OperatorCall, outputs: Outputs) -> float:
        a, b = call.dims[0], call.dims[1]
        groups = prod(call.dims[offsets]) if len(a) == len(b) == 2 else a[0] if len(a) == len(b) == 3 else 1
        code = call.scalar(out_dtype)
        item = SCALAR_TYPE_BYTES[code] if code is not None else call.item_bytes(0)
        return _reads(call, 0, 1) + float(groups * a[-2] * b[-1] * item)

    return traffic


def convolution(call: OperatorCall, outputs: Outputs) -> float:
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


def attention(call: OperatorCall, outputs: Outputs) -> float:
    """Queries, keys and values are read; a result like the queries, and a float for each of their rows, are written."""
    query, value = call.dims[0], call.dims[2]
    rows = prod(query[:-1])
    return _reads(call, 0, 1, 2) + rows * value[-1] * call.item_bytes(0) + 4.0 * rows


def attention_backward(call: OperatorCall, outputs: Outputs) -> float:
    """The inputs and the result of the forward pass and the result's gradient are read; three gradients are written."""
    rows = prod(call.dims[1][:-1])
    return 2 * _reads(call, 0, 1, 2, 3) + 4.0 * rows
