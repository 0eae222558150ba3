"""Products by their precision: those in fp16 on a CPU, whether it has units for them, and those in double precision."""

from collections.abc import Iterator

import numpy as np

from diagnose.arrays import Ints
from diagnose.facts import STEP, Unknown, Value, nothing_helps
from diagnose.metrics.kernel_groups.products import double_products, matrix
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.run.setup import precision
from diagnose.metrics.unknowns import NO_SHAPES
from diagnose.roofline.calls import call_of
from diagnose.trace.vocabulary import OPS

_PRODUCTS = (
    "aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::convolution", "aten::_convolution", "mkldnn::",
)  # fmt: skip
_ON_GPU = Unknown("the products are a GPU's", nothing_helps("the step is the device's"))


@metric("share", STEP, needs_gpu=False)
def cpu_fp16_product_share(m: Measured) -> Value:
    """Matrix products and convolutions in fp16 on a CPU, by the types of their arguments; without these, all where the
    record says that the job computes in fp16.
    """
    if m.timeline.has_gpu:
        return _ON_GPU
    rows = m.once(_fp16_products)
    return rows if isinstance(rows, Unknown) else m.running_share(rows)


@metric("share", "the time of matrix operators", needs_gpu=False)
def cpu_fp16_part_share(m: Measured) -> Value:
    """The same, of the time of all matrix operators, attention among them."""
    return _part(cpu_fp16_product_share(m), m.share("operator-compute"))


@metric("flag", needs_gpu=False)
def cpu_multiplies_fp16(m: Measured) -> Value:
    """Whether oneDNN, torch's library for products, multiplies fp16 on this CPU, which takes units for it."""
    return m.recorded(m.record.flag("torch_settings.cpu_multiplies_fp16"))


@metric("flag", needs_gpu=False)
def cpu_multiplies_bf16(m: Measured) -> Value:
    """Whether oneDNN multiplies bf16 on this CPU."""
    return m.recorded(m.record.flag("torch_settings.cpu_multiplies_bf16"))


@metric("share", STEP, needs_gpu=False)
def double_product_share(m: Measured) -> Value:
    """Matrix products and convolutions in double precision: on a GPU by kernel name, on a CPU by the types of the
    operators' arguments.
    """
    if m.timeline.has_gpu:
        return m.share_of(double_products(m))
    rows = m.once(_double_products)
    return rows if isinstance(rows, Unknown) else m.running_share(rows)


@metric("share", "the time of matrix products", needs_gpu=False)
def double_part_share(m: Measured) -> Value:
    """The same, of the time of all matrix products and attention."""
    products = m.share_of(matrix(m)) if m.timeline.has_gpu else m.share("operator-compute")
    return _part(double_product_share(m), products)


def _part(some: Value, products: float | Unknown) -> Value:
    """Some of the products, of the time of all."""
    if isinstance(some, Unknown) or isinstance(products, Unknown):
        return some
    return min(float(some) / products, 1.0) if products else 0.0


def _fp16_products(m: Measured) -> Ints | Unknown:
    return _products_in(m, "fp16", b"Half")


def _double_products(m: Measured) -> Ints | Unknown:
    return _products_in(m, "fp64", b"double")


def _products_in(m: Measured, wanted: str, spelled: bytes) -> Ints | Unknown:
    """The rows of products whose first tensor has the precision, as torch spells its type."""
    trace = m.timeline.trace
    named = np.array([name.startswith(_PRODUCTS) for name in trace.names], bool)
    rows = np.flatnonzero(trace.rows_of(*OPS) & named[trace.name])
    if len(rows) and not (trace.shape[rows] >= 0).any():
        recorded = precision(m)
        if isinstance(recorded, Unknown):
            return NO_SHAPES
        return rows if recorded == wanted else rows[:0]
    in_it = np.zeros(len(trace.shapes) + 1, bool)  # the last is for rows without shapes
    in_it[list(_shapes_in(m, wanted, spelled))] = True
    return rows[in_it[trace.shape[rows]]]


def _shapes_in(m: Measured, wanted: str, spelled: bytes) -> Iterator[int]:
    for at, shape in enumerate(m.timeline.trace.shapes):
        if spelled in bytes(shape[1]) and call_of("", shape).precision == wanted:
            yield at
