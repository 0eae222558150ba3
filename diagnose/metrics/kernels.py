"""What the kernels do, as shares of the device step, and how large they are."""

import numpy as np

from diagnose import intervals as iv
from diagnose.attribution.idle import Host
from diagnose.facts import STEP, Unknown, another_run, capture_setting, nothing_helps
from diagnose.metrics.registry import Measured, Value, metric
from diagnose.trace.vocabulary import DEVICE_ALLOCATION, RUNTIME, SYNCHRONISATION

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
def copy_cast_share(m: Measured) -> Value:
    """Kernels that copy, cast, fill, transpose or concatenate, time that no earlier kernel covers."""
    return m.share("copy")


@metric("share", STEP)
def gpu_busy_share(m: Measured) -> Value:
    """Part of the step in which the device does anything, collectives that wait included."""
    gpu, windows = m.timeline.gpu, m.timeline.windows
    busy = iv.intervals(gpu.start, gpu.end)
    return int(iv.coverage(busy, windows[:, 0], windows[:, 1]).sum()) / max(m.attribution.total_ns, 1)


@metric("share", STEP)
def gpu_idle_share(m: Measured) -> Value:
    """Part of the step in which the device does nothing."""
    busy = gpu_busy_share(m)
    return busy if isinstance(busy, Unknown) else 1 - float(busy)


@metric("count")
def kernels_per_step(m: Measured) -> Value:
    """Kernels in a counted step, collectives left out."""
    return int(m.kernels.sum()) / max(m.timeline.steps.count, 1)


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


@metric("share", STEP)
def fp32_simt_share(m: Measured) -> Value:
    """Matrix products and convolutions in fp32 without tensor cores, told by kernel name."""
    sub = np.array([k.dtype == "fp32" and k.tensor_core is False for k in m.timeline.gpu.kinds], bool)
    rows = m.kernels & sub[m.timeline.gpu.kind]
    return min(int(m.own_time[rows].sum()) / max(m.attribution.total_ns, 1), 1.0)


@metric("share", "the time of matrix-product and attention kernels")
def tensor_core_share(m: Measured) -> Value:
    """Part of the matrix-product and attention time that runs on tensor cores, told by kernel name."""
    kinds = m.timeline.gpu.kinds
    known = np.array([k.family in ("gemm", "attention") and k.tensor_core is not None for k in kinds], bool)
    yes = np.array([bool(k.tensor_core) for k in kinds], bool)
    rows = m.kernels & known[m.timeline.gpu.kind]
    total = int(m.own_time[rows].sum())
    if not total:
        return Unknown("no matrix-product or attention kernel whose name tells", nothing_helps("the model has none"))
    return int(m.own_time[rows & yes[m.timeline.gpu.kind]].sum()) / total


@metric("text", needs_gpu=False)
def gpu_name(m: Measured) -> Value:
    """Name of the device in use."""
    name = m.timeline.device_name
    return name or Unknown("the trace names no device", capture_setting("a torch that writes deviceProperties"))


@metric("version")
def compute_capability(m: Measured) -> Value:
    """CUDA compute capability, such as 8.0 for A100 and 9.0 for H100."""
    properties = m.timeline.device_properties
    major, minor = properties.get("computeMajor"), properties.get("computeMinor")
    if not isinstance(major, int) or not isinstance(minor, int):
        return Unknown("the trace lists no device properties", capture_setting("a torch that writes deviceProperties"))
    if "AMD" in str(properties.get("name", "")):
        return Unknown("the device is not an NVIDIA GPU", nothing_helps("compute capability has no meaning here"))
    return major + minor / 10
