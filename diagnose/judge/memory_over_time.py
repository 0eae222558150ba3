"""The memory of the fullest device over the window, as a picture needs it: without gaps, and with every extreme."""

import numpy as np

from diagnose.arrays import Ints
from diagnose.diagnosis import MemoryOverTime
from diagnose.judge.case import Case
from diagnose.metrics import Measured
from diagnose.trace.memory_series import HOST, MemorySeries

_LEAST = 8  # allocations further apart in time than a piece; fewer draw nothing


def memory_over_time(case: Case) -> MemoryOverTime | None:
    """The device that reached the highest peak, of the first rank that did; the host if no device is known.

    None if the profiler noted no totals of memory, or at few moments.
    """
    told = [
        (device != HOST, int(series.most.max()), measured, device, series)
        for measured in case.measured
        if case.only in (None, measured.timeline.rank)
        for device, series in measured.timeline.trace.memory.items()
        if len(series.at) >= _LEAST
    ]
    if not told:
        return None
    *_, measured, device, series = max(told, key=lambda one: one[:2])
    return _drawn(measured, None if device == HOST else device, series)


def _drawn(measured: Measured, device: int | None, series: MemorySeries) -> MemoryOverTime:
    piece = series.at >> series.shift
    begin = int(piece[0]) << series.shift
    least, most, reserved = _without_gaps(piece - piece[0], series)
    peak, steps = int(most.argmax()), measured.timeline.steps
    numbered = len(steps.numbers) == steps.count
    return MemoryOverTime(
        rank=measured.timeline.rank,
        device=device,
        piece_ns=1 << series.shift,
        least_bytes=tuple(least.tolist()),
        most_bytes=tuple(most.tolist()),
        reserved_bytes=tuple(reserved.tolist()) if series.reserved.min() >= 0 and device is not None else None,
        peak_bytes=int(most[peak]),
        peak_ns=peak << series.shift,
        steps=steps.numbers if numbered else tuple(range(steps.count)),
        step_ns=tuple((steps.host[:, 0] - begin).tolist()),
    )


def _without_gaps(piece: Ints, series: MemorySeries) -> tuple[Ints, Ints, Ints]:
    """The least and the most allocated, and the most reserved, of each piece: one begins as the one before it ended."""
    every = np.arange(int(piece[-1]) + 1)
    latest = np.searchsorted(piece, every, side="right") - 1
    least, most, reserved = series.last[latest], series.last[latest], series.reserved[latest]
    before = np.concatenate((series.least[:1], series.last[:-1]))
    least[piece] = np.minimum(series.least, before)
    most[piece] = np.maximum(series.most, before)
    return least, most, reserved
