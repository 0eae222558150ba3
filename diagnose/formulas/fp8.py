"""The time of a linear layer's products in fp8 over their time in half precision."""

from typing import TypeVar

from diagnose.arrays import Floats

Numbers = TypeVar("Numbers", float, Floats)

CAST_BYTES = 5.0  # of an element: read in bf16 for the largest value, read again and written in fp8
FUSED_CASTS = 1.0 / CAST_BYTES  # if casts fuse into the previous kernel, only the result is written
REACHED = 0.7  # of the peak of half precision, by large products
OPERANDS = 3  # input, weight and gradient, each cast once for the two of the three products that it takes part in
WORST_OVER_PEAK, WORST_CASTS = (
    1.2,
    1.6,
)  # kernels further from the fp8 peak than from that of bf16; casts in passes apart


def cast_s(rows: int, inner: int, columns: int, bytes_per_s: float) -> float:
    """Seconds that unfused casts add to one product: a third of those of a linear layer, forward and backward."""
    elements = rows * inner + inner * columns + rows * columns
    return CAST_BYTES * elements / OPERANDS / bytes_per_s


def full_rate_s(rows: int, inner: int, columns: int, peak_flops: float) -> float:
    """Seconds of a product at the rate of large ones; what it takes longer is no arithmetic."""
    return 2.0 * rows * inner * columns / (REACHED * peak_flops)


def product_factors(casts_share: Numbers, busy_share: Numbers, peak_ratio: float) -> tuple[Numbers, Numbers]:
    """Time of a product in fp8 over that in half precision, [best, worst], dynamic scales and casts included.

    Calibrated on published pairs of whole jobs, and on the small and the large layer that torchao documents
    (`benchmarks/accuracy/fp8.py`).

    Args:
        casts_share: `cast_s` over the product's time in half precision.
        busy_share: `full_rate_s` over that time, at most 1: in the worst case only this part gets shorter.
        peak_ratio: dense peak of half precision over that of fp8.
    """
    worst = 1 - (1 - WORST_OVER_PEAK * peak_ratio) * busy_share + WORST_CASTS * casts_share
    return peak_ratio + FUSED_CASTS * casts_share, worst
