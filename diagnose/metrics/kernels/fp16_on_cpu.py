"""Products in fp16 on a CPU: how much of the step they take, and whether the CPU has units for them."""

from collections.abc import Iterator

import numpy as np

from diagnose.arrays import Ints
from diagnose.facts import STEP, Unknown, Value, nothing_helps
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
    fp16, all_of_them = cpu_fp16_product_share(m), m.share("operator-compute")
    if isinstance(fp16, Unknown):
        return fp16
    return min(float(fp16) / all_of_them, 1.0) if all_of_them else 0.0


@metric("flag", needs_gpu=False)
def cpu_multiplies_fp16(m: Measured) -> Value:
    """Whether oneDNN, torch's library for products, multiplies fp16 on this CPU, which takes units for it."""
    return m.recorded(m.record.flag("torch_settings.cpu_multiplies_fp16"))


@metric("flag", needs_gpu=False)
def cpu_multiplies_bf16(m: Measured) -> Value:
    """Whether oneDNN multiplies bf16 on this CPU."""
    return m.recorded(m.record.flag("torch_settings.cpu_multiplies_bf16"))


def _fp16_products(m: Measured) -> Ints | Unknown:
    trace = m.timeline.trace
    named = np.array([name.startswith(_PRODUCTS) for name in trace.names], bool)
    rows = np.flatnonzero(trace.rows_of(*OPS) & named[trace.name])
    if len(rows) and not (trace.shape[rows] >= 0).any():
        recorded = precision(m)
        if isinstance(recorded, Unknown):
            return NO_SHAPES
        return rows if recorded == "fp16" else rows[:0]
    fp16 = np.zeros(len(trace.shapes) + 1, bool)  # the last is for rows without shapes
    fp16[list(_fp16_shapes(m))] = True
    return rows[fp16[trace.shape[rows]]]


def _fp16_shapes(m: Measured) -> Iterator[int]:
    for at, shape in enumerate(m.timeline.trace.shapes):
        if b"Half" in bytes(shape[1]) and call_of("", shape).precision == "fp16":
            yield at
