"""Matrix products: how near their ceiling they are, and sizes that do not suit tensor cores."""

from collections import Counter
from typing import NamedTuple

import numpy as np

from diagnose.arrays import Mask, distinct, numbered, summed
from diagnose.facts import STEP, Unknown, Value, analysis_option, another_run, nothing_helps
from diagnose.metrics.kernel_groups.operators import launching
from diagnose.metrics.kernel_groups.products import matrix, misaligned_products, misaligned_sizes, product_sizes
from diagnose.metrics.measured import Measured
from diagnose.metrics.model.flops import MIN_COVERED
from diagnose.metrics.registry import metric
from diagnose.metrics.unknowns import NO_SHAPES

_HALF = ("bf16", "fp16")
_COMPARABLE = 0.1
_LARGE = 512  # smaller products are bound by launches or memory, aligned or not
LEFT, MOST_LEFT = 0.65, 0.90  # of the time, where cuBLAS hides a part of it
_ALL_ALIGNED = Unknown("every product has sizes that are multiples of 8", nothing_helps("all products are aligned"))


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
    found, sizes = launching(m), misaligned_sizes(m)
    several, which = numbered(found.of_activity[misaligned])
    each_ns = summed(which, m.own_time[misaligned], len(several))
    for at, ns in zip(several.tolist(), each_ns.tolist(), strict=True):
        for size in set(sizes[found.signatures[at]]):
            time[size] += ns
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
    smallest = _COMPARABLE * max(work.flops for work in slow)
    alike = [work for work in fast if work.flops >= smallest]
    if not alike:
        return Unknown("no aligned product of like size to compare with", nothing_helps("pad one size and compare"))
    return _rate(alike) / _rate([work for work in slow if work.flops >= smallest])


@metric("share", "the time of misaligned products")
def least_aligned_left_share(m: Measured) -> Value:
    """The part that aligned sizes leave at least: the FLOPs at the rate of the fastest product measured on such a GPU.

    Products with a size below 512 do not reach that rate, and keep 65 % of their time.
    """
    odd, fastest = misaligned_products(m), m.device.achievable_matrix_flops
    if isinstance(odd, Unknown):
        return odd
    if not odd.any():
        return _ALL_ALIGNED
    if fastest is None:
        return Unknown(m.device.achievable_matrix_flops_source, another_run("measure the fastest product on this GPU"))
    works = _work(m, odd)
    total_ns = sum(work.ns for work in works)
    if not total_ns:
        return NO_SHAPES
    at_best = (work.flops * work.calls / fastest * 1e9 if work.least >= _LARGE else LEFT * work.ns for work in works)
    return min(sum(at_best) / total_ns, LEFT)


@metric("share", "the time of misaligned products")
def most_aligned_left_share(m: Measured) -> Value:
    """The part that aligned sizes leave at most: half of what is missing to the fastest product is not the sizes'."""
    least = least_aligned_left_share(m)
    return least if isinstance(least, Unknown) else min((1 + float(least)) / 2, MOST_LEFT)


class _Work(NamedTuple):
    """FLOPs of one call of a product, how many calls launched kernels, how long these took, and its least size."""

    flops: float
    calls: int
    ns: int
    least: int


def _work(m: Measured, activities: Mask) -> list[_Work]:
    """The products with sizes that launched any of the activities, by signature."""
    found = launching(m)
    at = np.flatnonzero(activities & (found.of_activity >= 0) & (m.own_time > 0))
    signature, (_, first) = found.of_activity[at], np.unique(m.operator[at], return_index=True)
    calls = np.bincount(signature[first], minlength=len(found.signatures)).tolist()
    ns = summed(signature, m.own_time[at], len(found.signatures)).tolist()
    sized = ((i, product_sizes(found.signatures[i])) for i in distinct(signature).tolist())
    return [
        _Work(2.0 * float(np.prod(n, dtype=np.float64)), calls[i], ns[i], min(n[-3:])) for i, n in sized if n and all(n)
    ]


def _rate(works: list[_Work]) -> float:
    return sum(work.flops * work.calls for work in works) / max(sum(work.ns for work in works), 1)


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
