"""Whether fp8 would pay: the device's units, the products that gain, and how much."""

import msgspec
import numpy as np

from diagnose.arrays import Floats, Ints, Mask, distinct, numbered
from diagnose.facts import STEP, Unknown, Value, nothing_helps
from diagnose.formulas import share
from diagnose.formulas.fp8 import cast_s, full_rate_s, product_factors
from diagnose.metrics.kernel_groups.operators import launching, of_kind, signatures
from diagnose.metrics.kernel_groups.products import half_products, product_sizes
from diagnose.metrics.kernel_groups.registry import group
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


# Products that fp8 would make faster: linear layers large enough to pay for their casts.

LINEAR = frozenset({"aten::mm", "aten::addmm", "aten::_addmm_activation"})
LONG_NS = 100_000  # so long a product is large, whatever its sizes


class Fp8Products(msgspec.Struct, frozen=True):
    """Mask of the GPU activities that are products faster in fp8, and their time in fp8 over their present time.

    `best` and `worst` are NaN if the sizes, the peaks or the bandwidth are not known.
    """

    gains: Mask
    best: Floats
    worst: Floats


@group("fp8-products")
def gaining_products(m: Measured) -> Mask:
    """Half-precision products of linear layers that fp8 makes faster, casts included: not small ones, nor the head.

    If sizes are not recorded: products of 100 us or more.
    """
    return m.once(fp8_products).gains


def fp8_products(m: Measured) -> Fp8Products:
    """The half-precision products, and what fp8 would make of each."""
    half = half_products(m)
    best, worst = np.full(len(half), np.nan), np.full(len(half), np.nan)
    ratio, bytes_per_s = peak_ratio(m), m.device.hbm_bytes_per_s
    sized = np.zeros(len(half), bool)
    at = np.flatnonzero(half & (m.operator >= 0))
    if ratio and bytes_per_s and len(at):
        casts_s, full_s, takes_s = _seconds(m, at, bytes_per_s)
        sized[at] = ~np.isnan(full_s)
        best[at], worst[at] = product_factors(casts_s / takes_s, np.minimum(full_s / takes_s, 1), ratio)
    gains = half & np.where(sized, worst < 1, m.own_time >= LONG_NS)
    return Fp8Products(gains, best[gains], worst[gains])


def peak_ratio(m: Measured) -> float | None:
    """Dense peak of half precision over that of fp8; None if one is not known."""
    half, fp8 = m.device.peak(m.device.matrix_precision), m.device.peak("fp8")
    return share(half, fp8)


def _seconds(m: Measured, at: Ints, bytes_per_s: float) -> tuple[Floats, Floats, Floats]:
    """Seconds of each kernel's product: its casts, its FLOPs at full rate, and its measured time.

    The first two are NaN if sizes are not recorded; casts also if it is not a linear layer's.
    """
    operators, signature = launching(m).signatures, launching(m).of_activity[at]
    peak, heads = m.device.peak(m.device.matrix_precision) or np.nan, _vocabularies(m)
    casts_s, full_s = np.full(len(operators), np.nan), np.full(len(operators), np.nan)
    for i in distinct(signature).tolist():
        sizes = product_sizes(operators[i])
        if not sizes:
            continue
        height, inner, width = sizes[-3:]
        full_s[i] = full_rate_s(height, inner, width, peak)
        if operators[i].name in LINEAR and heads.isdisjoint(sizes):
            casts_s[i] = cast_s(height, inner, width, bytes_per_s)
    which = numbered(m.operator[at])[1]
    takes_s = np.maximum(np.bincount(which, weights=m.own_time[at]) / 1e9, 1e-9)
    return casts_s[signature], full_s[signature], takes_s[which]


def _vocabularies(m: Measured) -> set[int]:
    """Rows of the embedding tables: a product of that size is the head, which stays in half precision."""
    tables = (lookup.dims for lookup in signatures(m, {"aten::embedding"}.__contains__))
    return {dims[0][0] for dims in tables if dims and len(dims[0]) == 2}
