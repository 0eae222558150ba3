"""Matrix products: how near their ceiling they are, and sizes that do not suit tensor cores."""

from collections import Counter

import numpy as np

from diagnose.arrays import Mask
from diagnose.facts import STEP, Unknown, Value, analysis_option, another_run, nothing_helps
from diagnose.metrics.kernel_groups.products import matrix, misaligned_products, misaligned_sizes, product_sizes
from diagnose.metrics.measured import Measured
from diagnose.metrics.model.flops import MIN_COVERED
from diagnose.metrics.registry import metric
from diagnose.metrics.unknowns import NO_SHAPES

_HALF = ("bf16", "fp16")
_COMPARABLE = 0.1
_ALL_ALIGNED = Unknown("no product has a size that is no multiple of 8", nothing_helps("all products are aligned"))


@metric("share", "the fastest bf16 product measured on such a GPU")
def achievable_matmul_share(m: Measured) -> Value:
    """FLOP/s inside bf16 and fp16 matrix-product kernels over those of the fastest product measured on such a GPU."""
    best = m.device.achievable_matrix_flops
    if best is None:
        return Unknown(
            m.device.achievable_matrix_flops_source,
            another_run("measure it on this GPU: mamf-finder of ml-engineering"),
        )
    rows = [row for row in m.roofline.rows if row.family == "gemm" and row.precision in _HALF]
    if not rows:
        return Unknown("no matrix product ran in half precision", nothing_helps("the model has none"))
    sized_ns = sum(row.sized_ns for row in rows)
    if not sized_ns or sized_ns < MIN_COVERED * sum(row.ns for row in rows):
        return NO_SHAPES
    return min(sum(row.flops or 0.0 for row in rows) / sized_ns * 1e9 / best, 1.0)


@metric("share", STEP)
def misaligned_product_share(m: Measured) -> Value:
    """Tensor-core matrix products of which an inner size or width of 64 or more is no multiple of 8."""
    return m.share_of(misaligned_products(m))


@metric("count")
def misaligned_size(m: Measured) -> Value:
    """The size that is no multiple of 8 in most of the time of misaligned products: a vocabulary, a hidden size."""
    misaligned = misaligned_products(m)
    if isinstance(misaligned, Unknown):
        return misaligned
    time: Counter[int] = Counter()
    sizes = misaligned_sizes(m)
    for at in np.flatnonzero(misaligned):
        for size in set(sizes[int(m.operator[at])]):
            time[size] += int(m.own_time[at])
    return max(time, key=lambda size: (time[size], size)) if time else _ALL_ALIGNED


@metric("factor")
def misaligned_slowdown_factor(m: Measured) -> Value:
    """FLOP/s of aligned matrix products over those of misaligned ones, of a tenth of their size or more."""
    odd = misaligned_products(m)
    if isinstance(odd, Unknown):
        return odd
    if not odd.any():
        return _ALL_ALIGNED
    slow = _work(m, odd)
    if not slow:
        return NO_SHAPES
    fast = _work(m, matrix(m) & ~odd)
    smallest = _COMPARABLE * max(flops for flops, _ in slow)
    alike = [(flops, ns) for flops, ns in fast if flops >= smallest]
    if not alike:
        return Unknown("no aligned product of like size to compare with", nothing_helps("pad one size and compare"))
    return _rate(alike) / _rate([(flops, ns) for flops, ns in slow if flops >= smallest])


def _work(m: Measured, activities: Mask) -> list[tuple[float, int]]:
    """FLOPs and nanoseconds of each product operator with kernels among the activities."""
    time: Counter[int] = Counter()
    for at in np.flatnonzero(activities & (m.operator >= 0)):
        time[int(m.operator[at])] += int(m.own_time[at])
    sized = [(product_sizes(m, row), ns) for row, ns in time.items()]
    return [(2.0 * float(np.prod(sizes, dtype=np.float64)), ns) for sizes, ns in sized if sizes and all(sizes) and ns]


def _rate(work: list[tuple[float, int]]) -> float:
    return sum(flops for flops, _ in work) / max(sum(ns for _, ns in work), 1)


@metric("share", "the time of matrix-product kernels")
def matmul_efficiency_share(m: Measured) -> Value:
    """Time that the FLOPs of matrix-product kernels take at the peak of the precision they ran in, over their time."""
    rows = [row for row in m.roofline.rows if row.family == "gemm" and not row.direction]
    if not rows:
        return Unknown("no matrix-product kernel ran", nothing_helps("the model has none"))
    sized_ns = sum(row.sized_ns for row in rows)
    if sized_ns < MIN_COVERED * sum(row.ns for row in rows):
        return NO_SHAPES
    peaks = [(row.flops or 0.0, m.device.peak(row.precision)) for row in rows if row.flops]
    if any(peak is None for _, peak in peaks):
        return Unknown(m.device.because or "the peak of a precision is not published", analysis_option("--peak-tflops"))
    least_ns = sum(flops / peak * 1e9 for flops, peak in peaks if peak)
    return min(least_ns / max(sized_ns, 1), 1.0)
