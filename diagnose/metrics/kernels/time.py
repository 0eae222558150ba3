"""Kernels by what they do, as shares of the step on the device, with their number and size."""

import numpy as np

from diagnose import intervals as iv
from diagnose.facts import STEP, Unknown, Value, another_run
from diagnose.metrics.kernel_groups.families import channel_layouts
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric

_FAMILIES = {
    "gemm": "Matrix products",
    "conv": "Convolutions",
    "attention": "Fused attention kernels",
    "norm": "Normalisation kernels",
    "loss": "Loss kernels",
    "activation": "Activation kernels",
    "softmax": "Softmax kernels",
    "elementwise": "Elementwise kernels outside the optimizer",
    "embedding": "Embedding lookups and their gradients",
    "optimizer": "Kernels of the optimizer's step",
}


def _family_metric(family: str, doc: str) -> None:
    def function(m: Measured) -> Value:
        return m.share(family)

    function.__name__, function.__doc__ = f"{family}_share", f"{doc}, time that no earlier kernel covers."
    metric("share", STEP)(function)


for _family, _doc in _FAMILIES.items():
    _family_metric(_family, _doc)


@metric("share", STEP)
def channel_layout_share(m: Measured) -> Value:
    """Kernels that cuDNN or MIOpen runs around convolutions to bring the channels last, and back."""
    return m.share_of(channel_layouts(m))


@metric("share", STEP)
def copy_cast_share(m: Measured) -> Value:
    """Kernels that copy, cast, fill, transpose or concatenate, time that no earlier kernel covers."""
    return m.share("copy")


@metric("share", STEP)
def gpu_busy_share(m: Measured) -> Value:
    """Part of the step in which the device does anything, collectives that wait included."""
    return m.once(_busy_share)


def _busy_share(m: Measured) -> float:
    gpu, windows = m.timeline.gpu, m.timeline.windows
    busy = iv.intervals(gpu.start, gpu.end)
    return m.attribution.share(iv.coverage(busy, windows[:, 0], windows[:, 1]).sum())


@metric("share", STEP)
def gpu_idle_share(m: Measured) -> Value:
    """Part of the step in which the device does nothing."""
    return 1 - m.once(_busy_share)


@metric("count")
def kernels_per_step(m: Measured) -> Value:
    """Kernels in a counted step, collectives left out."""
    return m.timeline.steps.each(int(m.kernels.sum()))


@metric("ns")
def mean_kernel_ns(m: Measured) -> Value:
    """Mean duration of a kernel, collectives left out."""
    return (
        float(m.own_time[m.kernels].mean())
        if m.kernels.any()
        else Unknown("no kernel ran", another_run("capture a step"))
    )


@metric("ns")
def median_kernel_ns(m: Measured) -> Value:
    """Median duration of a kernel, collectives left out."""
    return (
        float(np.median(m.own_time[m.kernels]))
        if m.kernels.any()
        else Unknown("no kernel ran", another_run("capture a step"))
    )
