"""Matrix products by precision and by how their sizes suit tensor cores, and the casts that they need."""

import numpy as np

from diagnose.arrays import Mask, distinct
from diagnose.metrics.kernel_groups.operators import (
    Signature,
    has_shapes,
    launched_by,
    of_kind,
    signatures,
    sizes_of,
)
from diagnose.metrics.kernel_groups.registry import Group, group
from diagnose.metrics.measured import Measured
from diagnose.metrics.unknowns import NO_SHAPES
from diagnose.roofline.calls import PRECISIONS, call_of
from diagnose.timeline.kernel_names import COMPUTE_FAMILIES, multiplies_in
from diagnose.trace.vocabulary import OPS

PRODUCTS = frozenset({"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"})
ALIGNED, SMALLEST_PADDED = 8, 64
_HALF = ("bf16", "fp16")


@group("fp32-products")
def fp32_products(m: Measured) -> Mask:
    """Matrix products in fp32 without tensor cores, by kernel name."""
    return _products_in(m, "fp32") & of_kind(m, lambda kind: kind.tensor_core is False)


@group("double-products")
def double_products(m: Measured) -> Mask:
    """Matrix products in double precision, by kernel name."""
    return _products_in(m, "fp64")


@group("matrix")
def matrix(m: Measured) -> Mask:
    """Matrix products, convolutions and attention."""
    return m.kernels & m.timeline.gpu.of_family(*COMPUTE_FAMILIES)


@group("tf32-products")
def tf32_products(m: Measured) -> Mask:
    """Matrix products in TF32, by kernel name."""
    return _products_in(m, "tf32")


@group("half-products")
def half_products(m: Measured) -> Mask:
    """Matrix products in bf16 or fp16, by kernel name."""
    return _products_in(m, "bf16", "fp16")


def _products_in(m: Measured, *precisions: str) -> Mask:
    return m.kernels & of_kind(m, lambda kind: kind.family == "gemm" and multiplies_in(kind, *precisions))


@group("weight-casts")
def weight_casts(m: Measured) -> Group:
    """Copies between fp32 and half precision of matrices that are weights: their gradients have the same sizes."""
    if not has_shapes(signatures(m)):
        return NO_SHAPES
    weights = _weight_sizes(m)
    return launched_by(m, lambda operator: _is_cast(m, operator) and operator.dims[0] in weights)


def _weight_sizes(m: Measured) -> set[tuple[int, ...]]:
    """Sizes of the weights of linear layers, else of the right operands of products, as they are and transposed.

    Left operands are activations and their gradients: logits, for one, are cast as matrices too.
    """
    linear = np.flatnonzero(m.timeline.matching(r"aten::linear$", *OPS) & (m.timeline.trace.shape >= 0))
    of_linear = (sizes_of(m, shape) for shape in distinct(m.timeline.trace.shape[linear]).tolist())
    sizes = {dims[1] for dims in of_linear if len(dims) > 1} or _right_operands(m)
    return {order for dims in sizes if len(dims) == 2 for order in (dims, dims[::-1])}


def _right_operands(m: Measured) -> set[tuple[int, ...]]:
    return {product.dims[-1] for product in _products(m) if product.dims}


def _products(m: Measured) -> list[Signature]:
    return signatures(m, PRODUCTS.__contains__)


def _is_cast(m: Measured, operator: Signature) -> bool:
    if operator.name not in ("aten::copy_", "aten::_to_copy") or not operator.dims:
        return False
    call = call_of(operator.name, m.timeline.trace.shapes[operator.shape])
    types = [PRECISIONS.get(name) for name, dims in zip(call.types, call.dims, strict=False) if dims]
    return len(types) == 2 and "fp32" in types and any(half in types for half in _HALF)


@group("misaligned-products")
def misaligned_products(m: Measured) -> Group:
    """Tensor-core products of which a size of 64 or more, along which memory is read, is no multiple of 8."""
    products = _products(m)
    if products and not has_shapes(products):
        return NO_SHAPES
    return launched_by(m, misaligned_sizes(m).__contains__) & of_kind(
        m, lambda kind: kind.family == "gemm" and kind.tensor_core is not False
    )


def product_sizes(product: Signature) -> tuple[int, ...]:
    """Rows, inner size and columns of a matrix product, batches first; empty if they are not recorded."""
    dims = [d for d in product.dims if len(d) >= 2]
    if len(dims) < 2 or dims[-2][-1] != dims[-1][-2]:
        return ()
    return (*dims[-2], dims[-1][-1])


def misaligned_sizes(m: Measured) -> dict[Signature, tuple[int, ...]]:
    """For each product, the sizes of 64 or more along which memory is read and that are no multiple of 8; batches left
    out.

    The number of tokens, the rows of activations, is not such a size: tensor cores load along rows, not across them.
    """
    right = _right_operands(m)
    weights = {size for size in right if size[::-1] in right}  # there forward and, transposed, backward
    found = {}
    for product in _products(m):
        along = _read_along(product_sizes(product)[-3:], weights)
        if odd := tuple(n for n in along if n >= SMALLEST_PADDED and n % ALIGNED):
            found[product] = odd
    return found


def _read_along(sizes: tuple[int, ...], weights: set[tuple[int, ...]]) -> tuple[int, ...]:
    """The sizes among rows, inner size and columns that are contiguous in memory.

    The gradient of a weight is the product of two activations, both read across: its inner size is the tokens.
    """
    if len(sizes) < 3:
        return ()
    rows, inner, columns = sizes
    return (rows, columns) if (rows, columns) in weights else (inner, columns)


@group("fp32-convolutions")
def fp32_convolutions(m: Measured) -> Mask:
    """Convolutions in fp32 without tensor cores, as far as cuDNN's names show it."""
    return m.kernels & of_kind(m, lambda kind: kind.family == "conv" and multiplies_in(kind, "fp32"))
