"""Calls of a step with which the host launches kernels, waits for the device and allocates its memory."""

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Ints
from diagnose.attribution.idle import Host
from diagnose.facts import STEP, Unknown, Value, capture_setting
from diagnose.formulas import share
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.roofline import owners
from diagnose.trace.vocabulary import DEVICE_ALLOCATION, OPS, RUNTIME, SYNCHRONISATION

_LAUNCH = r"(cuda|hip)(Ext)?(Module)?Launch|cuLaunchKernel|(cuda|hip)GraphLaunch"
_MALLOC, _FREE = r"(cuda|hip)Malloc$", r"(cuda|hip)Free$"  # the driver's own pool (...Async) keeps what is freed
_NEW_TENSOR = r"aten::empty(_strided)?$"
_CACHING_OFF = tuple(f"environment.PYTORCH_NO_{of}_MEMORY_CACHING" for of in ("CUDA", "HIP"))
LAUNCH_NS = 5_000  # a launch that does not wait takes 3 to 8 us with the profiler on
_LEAST_MALLOCS = 10  # of a step: a warm cache asks for none, a growing one for a few
_OF_LAUNCHES, _OF_TENSORS = 0.3, 0.5  # most operators outside the optimizer make a tensor for what they launch


def frees_per_step(m: Measured) -> float:
    """Calls in a step that give device memory back to the driver."""
    return _calls_per_step(m, _FREE)


def _calls_per_step(m: Measured, pattern: str) -> float:
    return _per_step(m, m.timeline.rows_matching(pattern, *RUNTIME))


def _per_step(m: Measured, rows: Ints) -> float:
    step = iv.which_holds(m.timeline.steps.host, m.timeline.trace.ts[rows])
    return m.timeline.steps.each(int(np.count_nonzero(step >= 0)))


@metric("count")
def launches_per_step(m: Measured) -> Value:
    """Kernel and graph launches that the host makes in a step."""
    return _calls_per_step(m, _LAUNCH)


@metric("share", STEP)
def launch_wait_share(m: Measured) -> Value:
    """Time that the host spends in calls that launch, beyond what a launch that returns at once takes.

    It is no more than the steps, of which the host's marks lie elsewhere than the device's.
    """
    line = m.timeline
    rows = m.in_steps_of_host(line.rows_matching(_LAUNCH, *RUNTIME))
    waited_ns = int(np.maximum(line.trace.dur[rows] - LAUNCH_NS, 0).sum())
    return min(m.attribution.share(waited_ns), 1.0)


@metric("count")
def syncs_per_step(m: Measured) -> Value:
    """Calls in a step with which the host waits for the device, copies to the host that hold it included."""
    _, held = Host(m.timeline).long_copies()
    return _per_step(m, np.flatnonzero(held | m.timeline.matching(SYNCHRONISATION, *RUNTIME)))


@metric("count")
def allocations_per_step(m: Measured) -> Value:
    """Calls in a step that allocate or free device memory past the caching allocator."""
    return _calls_per_step(m, DEVICE_ALLOCATION)


@metric("flag")
def allocator_caches(m: Measured) -> Value:
    """Whether the caching allocator keeps freed memory.

    It does not if the record shows that it is switched off, or if each step allocates for most new tensors, or as often
    as it launches, and frees about as often: a cache that is emptied at times fills again with fewer, larger pieces.
    """
    if any(m.record.text(name) not in (None, "0") for name in _CACHING_OFF):
        return False
    if not m.timeline.trace.rows_of(*RUNTIME).any():
        return Unknown("the trace shows no calls of the driver", capture_setting("CPU and CUDA activities together"))
    mallocs, frees = _calls_per_step(m, _MALLOC), _calls_per_step(m, _FREE)
    if mallocs < _LEAST_MALLOCS or not 0.5 * mallocs <= frees <= 2 * mallocs:
        return True
    return mallocs < _OF_LAUNCHES * _calls_per_step(m, _LAUNCH) and _tensors_allocated(m) < _OF_TENSORS


def _tensors_allocated(m: Measured) -> float:
    """The part of the operators that make a tensor inside which the driver allocates."""
    line = m.timeline
    made, mallocs = line.rows_matching(_NEW_TENSOR, *OPS), line.rows_matching(_MALLOC, *RUNTIME)
    inside = owners.around(line.trace, made, mallocs)
    return share(len(np.unique(inside[inside >= 0])), len(made)) or 0.0
