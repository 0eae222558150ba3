"""Whether the capture can be trusted."""

from collections.abc import Callable

import numpy as np

from diagnose.arrays import Ints, Mask
from diagnose.facts import DIAGNOSE_RUN, Unknown, Value, another_run, nothing_helps
from diagnose.formulas import share
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.run.steps import operators_of_a_step
from diagnose.probes.protocol import JOBS_PROFILER
from diagnose.timeline import Timeline
from diagnose.trace.nsight.names import GRAPH
from diagnose.trace.record import profiler_factor

_NO_LINKS = Unknown(
    "no GPU activity is linked to a launch: the correlation ids of the trace are missing or cannot be used",
    another_run("capture with torch.profiler, and pass the file as it wrote it"),
)

PROFILER_S = 2e-6  # for an operator, at most: measured, 0.9 to 2.5 microseconds in steps of 2 to 70 ms on a CPU
MOST_OF_PROFILER = 0.5  # of a step
_NO_LAUNCH = Unknown("no kernel launch was recorded", another_run("capture CPU and CUDA activities together"))


@metric("text", needs_gpu=False)
def captured_with(m: Measured) -> Value:
    """The tool that took the trace:

    "diagnose run", which leaves a record next to it, "Nsight Systems", or "another profiler".
    """
    if m.timeline.trace.of_nsight:
        return "Nsight Systems"
    return "diagnose run" if m.record else "another profiler"


@metric("text", needs_gpu=False)
def second_profiler(m: Measured) -> Value:
    """The effect on the capture of another profiler than the one that took the trace, "none" if there is no sign of
    one.
    """
    others, passed = m.timeline.steps.others, m.record.number("steps.passed")
    did = []
    if others:
        did.append(f"left {len(others)} step marks of its own, numbers {min(others)} to {max(others)}")
    if passed:
        did.append(f"was on for {passed:.0f} of the steps, which are neither timed nor recorded")
    if m.record.text("steps.cut_by") == JOBS_PROFILER:
        did.append("ended the capture before its planned end")
    return "; ".join(did) or "none"


@metric("text", needs_gpu=False)
def cut_capture(m: Measured) -> Value:
    """The part of the window left out to stay within the limits of the capture, "none" if nothing was."""
    cut = []
    asked, recorded = m.record.number("recording.asked_steps"), m.record.number("recording.steps")
    if asked is None or recorded is None:
        return Unknown("the capture's record does not say what was to be recorded", DIAGNOSE_RUN)
    if recorded < asked:
        cut.append(f"{recorded:.0f} of {asked:.0f} steps are recorded")
    if m.record.flag("recording.shapes") is False:
        cut.append("shapes of tensors are not recorded")
    if cut and (because := m.record.text("recording.cut_because")):
        cut.append(because)
    ranks, world_size = m.record.number("recording.recorded_ranks"), m.record.number("world_size")
    if ranks is not None and world_size is not None and ranks < world_size:
        cut.append(f"{ranks:.0f} of {world_size:.0f} ranks record by choice, the others keep step times")
    return "; ".join(cut) or "none"


@metric("text", needs_gpu=False)
def gpu_record(m: Measured) -> Value:
    """How much of what the GPU did is in the trace: "recorded", "lost at the start", "lost at the end",
    "lost in between", "all lost", "cut off" (the file ends before it), "unknown device", "unused GPU" (there is one,
    which was watched and launched nothing), "not recorded" (CUDA activity was off), "no GPU", "nothing recorded" (of
    the host neither).
    """
    return m.timeline.gpu_record


@metric("share", "kernel launches of the counted steps", needs_gpu=False)
def gpu_events_lost_share(m: Measured) -> Value:
    """Kernel launches of the counted steps whose GPU activity is missing: Kineto drops it when its buffer fills."""
    return _of_launches(m, 1.0, lost_share)


@metric("share", "kernel launches", needs_gpu=False)
def gpu_events_lost_outside_share(m: Measured) -> Value:
    """Kernel launches that lie outside the counted steps and whose GPU activity is missing, of all in the capture."""
    return _of_launches(m, 0.0, _lost_outside_share)


def _of_launches(m: Measured, if_all_lost: float, lost: Callable[[Timeline], float]) -> Value:
    """A share of launches without their activity, where launches can be linked to activities."""
    if m.timeline.is_unlinked:
        return _NO_LINKS
    if m.timeline.gpu_record == "all lost":
        return if_all_lost
    if not m.timeline.launches:
        return m.without_gpu or _NO_LAUNCH
    return lost(m.timeline)


def _lost_outside_share(timeline: Timeline) -> float:
    return share(timeline.lost_launches - timeline.lost_in_steps[0], timeline.launches) or 0.0


def lost_share(timeline: Timeline) -> float:
    """Kernel launches of the counted steps whose GPU activity is missing; 0 if none was recorded, or no launch can be
    linked to any activity.
    """
    return 0.0 if timeline.is_unlinked else share(*timeline.lost_in_steps) or 0.0


@metric("ns", needs_gpu=False)
def clock_shift_ns(m: Measured) -> Value:
    """The most by which the GPU's times are moved later than in the trace: the least shift that leaves no more than one
    linked activity in a hundred before its launch, following a drift of the clocks; 0 if no shift is needed.
    """
    shift = m.timeline.clock_shift_ns
    return 0 if shift is None else int(shift.max())


@metric("share", "linked GPU activities", needs_gpu=False)
def early_start_share(m: Measured) -> Value:
    """GPU activities that begin, by the trace, before the call that launches them: its clock is behind the host's."""
    early_ns = _early_ns(m)
    return early_ns if isinstance(early_ns, Unknown) else float((early_ns > 0).mean())


@metric("ns", needs_gpu=False)
def early_start_ns(m: Measured) -> Value:
    """The longest time by which one begins before its launch does: how far the clocks lie apart at least."""
    early_ns = _early_ns(m)
    return early_ns if isinstance(early_ns, Unknown) else float(max(early_ns.max(), 0))


def _early_ns(m: Measured) -> Ints | Unknown:
    """Nanoseconds by which each linked GPU activity of the counted steps begins before its launch, by the times of the
    trace; 0 for a job without a GPU, which has one clock.
    """
    if m.without_gpu is not None:
        return m.device_unseen or np.zeros(1, np.int64)
    gpu = m.timeline.gpu
    linked = m.in_steps & (gpu.launch >= 0)
    start = gpu.start if m.timeline.clock_shift_ns is None else gpu.start - m.timeline.clock_shift_ns
    return gpu.launch_start[linked] - start[linked] if linked.any() else _NO_LINKS


@metric("count", needs_gpu=False)
def unknown_device_events(m: Measured) -> Value:
    """Events of a device whose activities have categories of its own: counted, and what it did stays unknown."""
    return sum(m.timeline.unknown_device.values())


@metric("text", needs_gpu=False)
def unknown_device_categories(m: Measured) -> Value:
    """The categories of the events of such a device."""
    categories = sorted(m.timeline.unknown_device)
    if not categories:
        return Unknown("every device of the trace is known", nothing_helps("there is no other"))
    return ", ".join(categories)


@metric("share", "the file's bytes", needs_gpu=False)
def trace_loss_share(m: Measured) -> Value:
    """Bytes of the file that could not be read. A cut file does not show how much is missing after the cut."""
    return share(m.timeline.trace.loss.bytes, m.timeline.trace.size) or 0.0


@metric("factor", needs_gpu=False)
def profiler_overhead_factor(m: Measured) -> Value:
    """Profiled over unprofiled step time, from the steps that the probe times without the profiler."""
    factor = profiler_factor(m.record)
    if factor is not None:
        return factor
    return Unknown("the trace holds no unprofiled steps to compare with", DIAGNOSE_RUN)


@metric("factor", needs_gpu=False)
def most_profiler_factor(m: Measured) -> Value:
    """Profiled over unprofiled step time at most, at least 1: as measured and, on a CPU, as the profiler's two
    microseconds for each operator make it, which the changes of a long wait may hide.
    """
    measured = profiler_overhead_factor(m)
    known = 1.0 if isinstance(measured, Unknown) else max(float(measured), 1.0)
    if m.timeline.has_gpu:
        return measured if isinstance(measured, Unknown) else known
    return max(known, 1 / (1 - min(profiler_s(m) / m.step_s, MOST_OF_PROFILER)))


def profiler_s(m: Measured) -> float:
    """Seconds of a counted step that the profiler takes at most, by the step's operators."""
    return PROFILER_S * operators_of_a_step(m)


@metric("share", "kernel time")
def unclassified_kernel_share(m: Measured) -> Value:
    """Time of kernels whose name no row of the kernel table knows, of all kernel time."""
    unknown = m.kernels & m.timeline.gpu.of_family("other", "aten_other")
    return _of_kernel_time(m, unknown)


@metric("share", "kernel time")
def unrecorded_graph_share(m: Measured) -> Value:
    """Time of CUDA graphs that were recorded as one activity each, without their kernels, of all kernel time."""
    trace = m.timeline.trace
    if GRAPH not in trace.names:
        return 0.0
    graphs = m.kernels & (trace.name[m.timeline.gpu.row] == trace.names.index(GRAPH))
    return _of_kernel_time(m, graphs)


def _of_kernel_time(m: Measured, kernels: Mask) -> float:
    return share(m.own_time[kernels].sum(), m.own_time[m.kernels].sum()) or 0.0
