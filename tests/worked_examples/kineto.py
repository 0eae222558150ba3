"""Kineto's formulas for the figures of its events (libkineto, output_json.cpp)."""

import math
from collections.abc import Sequence

import numpy as np

from diagnose.formulas.kineto import blocks_per_sm, nanoseconds

BASE_PERIOD_S = 7_889_238  # a quarter of a year
WARP_THREADS = 32


def base_time_ns(unix_s: int) -> int:
    """`baseTimeNanoseconds` of a trace taken at that time: the begin of its quarter-year period."""
    return unix_s // BASE_PERIOD_S * BASE_PERIOD_S * 10**9


def absolute_ns(base_ns: int, ts_us: float) -> int:
    """Nanoseconds since the epoch of an event's `ts`."""
    return base_ns + int(nanoseconds(np.array([ts_us]))[0])


def bytes_per_ns(moved_bytes: int, dur_us: float) -> float:
    """`memory bandwidth (GB/s)` of a copy."""
    return moved_bytes / (dur_us * 1000)


def warps_per_sm(grid: Sequence[int], block: Sequence[int], sms: int) -> float:
    """`warps per SM` of a kernel."""
    return blocks_per_sm(grid, sms) * math.prod(block) / WARP_THREADS


def annotation_span_us(first_start_us: float, last_end_us: float) -> tuple[float, float]:
    """`ts` and `dur` of a gpu_user_annotation: from 1 ns before its first activity to 1 ns after its last."""
    start, end = nanoseconds(np.array([first_start_us, last_end_us])).tolist()
    return (start - 1) / 1000, (end - start + 2) / 1000
