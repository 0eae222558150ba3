"""Memory that goes back to the system and comes anew in each step: the page faults of a step without a GPU."""

from statistics import mean, median

from diagnose.facts import STEP, Unknown, Value, nothing_helps
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.run.environment import variable
from diagnose.trace.record import control_ns

MOST_NS = 3000  # of a fault that maps and clears 4 KiB; measured: 1.7 us on a virtual machine
_ON_GPU = Unknown("the step is the device's, which has memory of its own", nothing_helps("the host's memory is not it"))


@metric("share", STEP, needs_gpu=False)
def page_fault_share(m: Measured) -> Value:
    """Time that the training thread spends in the kernel in steps without the profiler, as far as page faults that read
    no disk explain it, at 3 us each, in a step without a GPU.
    """
    if elsewhere := _ON_GPU if m.timeline.has_gpu else m.device_unseen:
        return elsewhere
    in_kernel, faults = (_of_steps(m, name) for name in ("system_ns", "page_faults"))
    step = [ns for side in control_ns(m.record) for ns in side]
    if in_kernel is None or faults is None or len(step) != len(faults):
        return m.unrecorded
    return min(mean(in_kernel), median(faults) * MOST_NS) / mean(step)


@metric("count", needs_gpu=False)
def page_faults_per_step(m: Measured) -> Value:
    """Pages of 4 KiB, or larger ones, that the kernel maps for the training thread in a step without reading a disk."""
    faults = _of_steps(m, "page_faults")
    return round(median(faults)) if faults else m.unrecorded


@metric("text", needs_gpu=False)
def malloc_library(m: Measured) -> Value:
    """The library that serves the process's memory: glibc, or one that is loaded in its place."""
    return m.recorded(m.record.text("malloc"))


@metric("flag", needs_gpu=False)
def keeps_freed_memory(m: Measured) -> Value:
    """Whether glibc maps no large memory apart, by its variable: memory apart goes back when it is freed."""
    apart = variable(m, "MALLOC_MMAP_MAX_")
    return apart if isinstance(apart, Unknown) else apart == "0"


def _of_steps(m: Measured, name: str) -> list[float] | None:
    """The number of each step without the profiler; None if one has none."""
    found = m.record.get(f"steps.unprofiled_{name}") or ()
    return None if not found or None in found else [float(each) for each in found]
