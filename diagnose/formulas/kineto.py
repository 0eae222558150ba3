"""How Kineto writes times and spreads a kernel over the device (libkineto, output_json.cpp)."""

import math
from collections.abc import Sequence

import numpy as np

from diagnose.arrays import Floats, Ints

NO_TIME = int(np.iinfo(np.int64).min)
DOUBLE_IS_EXACT_BELOW_US = 1 << 43


def nanoseconds(us: Floats) -> Ints:
    """Microseconds with three decimals to exact integer nanoseconds, NO_TIME where |us| < 2**43 does not hold.

    The whole and the fractional part are scaled apart: their product with 1000 is exact, that of the sum is not.
    """
    sound = np.abs(us) < DOUBLE_IS_EXACT_BELOW_US
    fraction, whole = np.modf(np.where(sound, us, 0.0))
    ns = whole.astype(np.int64) * 1000 + np.rint(fraction * 1000).astype(np.int64)
    return np.where(sound, ns, NO_TIME)


def blocks_per_sm(grid: Sequence[int], sms: int) -> float:
    """`blocks per SM` of a kernel: all its blocks over the multiprocessors; below 1 some have none."""
    return math.prod(grid) / sms
