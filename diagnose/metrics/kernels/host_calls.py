"""Calls of a step with which the host launches kernels, waits for the device and allocates its memory."""

import numpy as np

from diagnose.attribution.idle import Host
from diagnose.facts import Value
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.trace.vocabulary import DEVICE_ALLOCATION, RUNTIME, SYNCHRONISATION


def _calls_per_step(m: Measured, pattern: str) -> float:
    return _per_step(m, m.timeline.matching(pattern, *RUNTIME))


def _per_step(m: Measured, calls: "np.ndarray[tuple[int], np.dtype[np.bool_]]") -> float:
    rows = np.flatnonzero(calls)
    start, host = m.timeline.trace.ts[rows], m.timeline.steps.host
    at = np.searchsorted(host[:, 0], start, side="right") - 1
    inside = (at >= 0) & (start < host[np.maximum(at, 0), 1])
    return int(inside.sum()) / max(m.timeline.steps.count, 1)


@metric("count")
def launches_per_step(m: Measured) -> Value:
    """Kernel and graph launches that the host makes in a step."""
    return _calls_per_step(m, r"(cuda|hip)(Ext)?(Module)?Launch|cuLaunchKernel|(cuda|hip)GraphLaunch")


@metric("count")
def syncs_per_step(m: Measured) -> Value:
    """Calls in a step with which the host waits for the device, copies to the host that hold it included."""
    _, held = Host(m.timeline).long_copies()
    return _per_step(m, held | m.timeline.matching(SYNCHRONISATION, *RUNTIME))


@metric("count")
def allocations_per_step(m: Measured) -> Value:
    """Calls in a step that allocate or free device memory past the caching allocator."""
    return _calls_per_step(m, DEVICE_ALLOCATION)
