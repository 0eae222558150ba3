"""Copies to the device: batches, or data that a job offloads to the host for want of device memory."""

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Ints, Mask
from diagnose.facts import Unknown, Value, another_run, capture_setting, nothing_helps
from diagnose.metrics.kernel_groups.phases import copies_to_device
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.trace.vocabulary import BACKWARD, OPS

_NO_COPIES = Unknown("no copy to the device with a size", nothing_helps("the step copies no input"))
_NO_OPERATORS = Unknown(
    "the trace shows no operators, so batches cannot be told from offloaded weights",
    capture_setting("ProfilerActivity.CPU and CUDA together"),
)
_NO_STEPS = Unknown(
    "without step marks batches cannot be told from offloaded weights",
    another_run("capture with diagnose run, or call profiler.step() after each step"),
)


@metric("share", "bytes copied to the device")
def copied_amid_passes_share(m: Measured) -> Value:
    """Share of host-to-device bytes copied during the forward pass, the backward pass or the optimizer's step:
    offloaded weights, activations or states, not the input batch.

    A batch is copied before the products of its forward pass. Copies inside a function of the backward pass, in the
    optimizer's step, or after a product of the forward pass belong to these.
    """
    gpu, copies = m.timeline.gpu, np.flatnonzero(copies_to_device(m))
    size = np.maximum(m.timeline.trace.bytes[gpu.row[copies]], 0)
    if not size.sum():
        return _NO_COPIES
    if not m.timeline.trace.rows_of(*OPS).any():
        return _NO_OPERATORS
    backward = m.ranges(BACKWARD)
    if m.timeline.steps.source == "window" and not len(backward):
        return _NO_STEPS
    launched = gpu.launch_start[copies]
    amid = iv.holds(iv.union(backward, m.timeline.optimizer_steps), launched) | _amid_forward(m, launched, backward)
    return int(size[amid].sum()) / int(size.sum())


def _amid_forward(m: Measured, times: Ints, backward: iv.Intervals) -> Mask:
    """Whether the last product launched before each time, in its step, was one of a forward pass."""
    gpu, host = m.timeline.gpu, m.timeline.steps.host
    products = np.sort(gpu.launch_start[m.kernels & gpu.is_compute_bound & (gpu.launcher >= 0)])
    at = np.searchsorted(products, times) - 1
    last = products[np.maximum(at, 0)] if len(products) else np.zeros(len(times), np.int64)
    same_step = np.searchsorted(host[:, 0], last, side="right") == np.searchsorted(host[:, 0], times, side="right")
    return (at >= 0) & same_step & ~iv.holds(backward, last)
