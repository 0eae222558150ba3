"""Matrix products whose sizes do not suit tensor cores."""

from collections import Counter

import numpy as np

from diagnose.arrays import Mask
from diagnose.facts import STEP, Unknown, nothing_helps
from diagnose.metrics import groups, remedy_groups
from diagnose.metrics.patterns import share_of
from diagnose.metrics.registry import NO_SHAPES, Measured, Value, metric

_COMPARABLE = 0.1
_ALL_ALIGNED = Unknown("no product has a size that is no multiple of 8", nothing_helps("all products are aligned"))


@metric("share", STEP)
def misaligned_product_share(m: Measured) -> Value:
    """Tensor-core matrix products of which a size of 64 or more is no multiple of 8."""
    return share_of(m, remedy_groups.misaligned_products(m))


@metric("count")
def misaligned_size(m: Measured) -> Value:
    """The size that is no multiple of 8 in most of the time of misaligned products: a vocabulary, a hidden size."""
    found = remedy_groups.misaligned_products(m)
    if isinstance(found, Unknown):
        return found
    time: Counter[int] = Counter()
    for at in np.flatnonzero(found):
        for size in set(remedy_groups.misaligned_sizes(m, int(m.operator[at]))):
            time[size] += int(m.own_time[at])
    return max(time, key=lambda size: (time[size], size)) if time else _ALL_ALIGNED


@metric("factor")
def misaligned_slowdown_factor(m: Measured) -> Value:
    """FLOP/s of aligned matrix products over those of misaligned ones, of a tenth of their size or more."""
    odd = remedy_groups.misaligned_products(m)
    if isinstance(odd, Unknown):
        return odd
    if not odd.any():
        return _ALL_ALIGNED
    gemm = groups.NAMES["matrix"](m)
    assert not isinstance(gemm, Unknown)
    slow = _work(m, odd)
    if not slow:
        return NO_SHAPES
    fast = _work(m, gemm & ~odd)
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
    sized = [(remedy_groups.product_sizes(m, row), ns) for row, ns in time.items()]
    return [(2.0 * float(np.prod(sizes, dtype=np.float64)), ns) for sizes, ns in sized if sizes and all(sizes) and ns]


def _rate(work: list[tuple[float, int]]) -> float:
    return sum(flops for flops, _ in work) / max(sum(ns for _, ns in work), 1)
