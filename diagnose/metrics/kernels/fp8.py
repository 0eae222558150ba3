"""Whether fp8 would pay: the device's units, the products that gain, and how much."""

import numpy as np

from diagnose.arrays import Floats, Mask
from diagnose.facts import STEP, Unknown, Value, nothing_helps
from diagnose.metrics.kernel_groups.fp8 import fp8_products
from diagnose.metrics.kernel_groups.operators import of_kind
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.run.device import compute_capability
from diagnose.metrics.unknowns import NO_SHAPES
from diagnose.timeline.kernel_names import multiplies_in

FIRST_WITH_FP8 = 8.9  # Ada
_NONE_GAINS = Unknown("no half-precision product is large enough for fp8", nothing_helps("nothing would gain"))


@metric("flag")
def has_fp8(m: Measured) -> Value:
    """Whether the GPU has matrix units for fp8: by its published peaks, else by its compute capability."""
    if m.device.gpu is not None:
        return m.device.peak("fp8") is not None
    capability = compute_capability(m)
    return capability if isinstance(capability, Unknown) else float(capability) >= FIRST_WITH_FP8


@metric("share", STEP)
def fp8_share(m: Measured) -> Value:
    """Matrix products in fp8, by kernel name."""
    return m.share_of(m.kernels & of_kind(m, lambda kind: kind.family == "gemm" and multiplies_in(kind, "fp8")))


@metric("share", STEP)
def fp8_product_share(m: Measured) -> Value:
    """Half-precision products of linear layers that fp8 makes faster, casts included; without sizes the long ones."""
    return m.share_of(m.once(fp8_products).gains)


@metric("factor")
def fp8_best_factor(m: Measured) -> Value:
    """Time in fp8 of the products that gain, over their time as they are, in the best case, casts included."""
    found = m.once(fp8_products)
    return _mean(m, found.gains, found.best)


@metric("factor")
def fp8_worst_factor(m: Measured) -> Value:
    """The same in the worst case."""
    found = m.once(fp8_products)
    return _mean(m, found.gains, found.worst)


def _mean(m: Measured, gains: Mask, factor: Floats) -> Value:
    """The factor over the products that gain, weighted by time; unknown if it is unknown for one of them."""
    if not gains.any():
        return _NONE_GAINS
    mean = float(np.average(factor, weights=m.own_time[gains]))
    return NO_SHAPES if np.isnan(mean) else mean
