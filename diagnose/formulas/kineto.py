"""Kineto's arithmetic: how it writes times and spreads a kernel over the device (libkineto, output_json.cpp)."""

import math
from collections.abc import Sequence

import numpy as np

from diagnose.arrays import Floats, Ints

NO_TIME = int(np.iinfo(np.int64).min)
DOUBLE_IS_EXACT_BELOW_US = 1 << 43
_ROUNDED = 1e-3  # of a wave: blocks per multiprocessor are written to six digits


def nanoseconds(us: Floats) -> Ints:
    """Convert microseconds with three decimals to exact integer nanoseconds; NO_TIME unless |us| < 2**43.

    The whole and the fractional part are scaled apart: their product with 1000 is exact, that of the sum is not.
    """
    sound = np.abs(us) < DOUBLE_IS_EXACT_BELOW_US
    fraction, whole = np.modf(np.where(sound, us, 0.0))
    ns = whole.astype(np.int64) * 1000 + np.rint(fraction * 1000).astype(np.int64)
    return np.where(sound, ns, NO_TIME)


def blocks_per_sm(grid: Sequence[int], sms: int) -> float:
    """`blocks per SM` of a kernel: all its blocks over the multiprocessors; below 1 some have none."""
    return math.prod(grid) / sms


def waves(blocks_per_sm: Floats, block_threads: Ints, occupancy_percent: Ints, multiprocessor_threads: int) -> Floats:
    """How many times a kernel's blocks fill the device; 1 or less if they fit at once, NaN if unknown.

    Kineto estimates occupancy from the blocks that a multiprocessor holds at once, by CUDA's occupancy calculator from
    registers and shared memory, or from all blocks if these are fewer.

    Args:
        blocks_per_sm: all blocks over the multiprocessors.
        block_threads: threads of a block.
        occupancy_percent: resident warps of a multiprocessor over those that it can hold.
        multiprocessor_threads: threads that a multiprocessor can hold.
    """
    known = (block_threads > 0) & (occupancy_percent > 0) & (blocks_per_sm > 0)
    held = np.rint(occupancy_percent / 100 * multiprocessor_threads / np.maximum(block_threads, 1))
    with np.errstate(invalid="ignore"):
        return np.where(known, blocks_per_sm / np.maximum(held, 1), np.nan)


def tail_share(waves: Floats) -> Floats:
    """Share of a kernel's time in which the last wave leaves multiprocessors idle: (ceil(w) - w) / ceil(w).

    0 up to one wave, because the kernel is then short of blocks from its beginning, and NaN if the waves are unknown.
    NVIDIA, Matrix Multiplication Background, section 3.2 (wave quantisation).
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        whole = np.ceil(waves - _ROUNDED)
        idle = np.maximum(whole - waves, 0) / whole
    return np.where(waves <= 1 + _ROUNDED, 0.0, idle)
