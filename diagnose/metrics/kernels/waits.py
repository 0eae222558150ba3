"""The call that makes the host wait for the device: an operator reading a value, a copy, loss scaling, or the loop."""

import msgspec
import numpy as np

from diagnose.arrays import Ints, among
from diagnose.attribution.idle import Host
from diagnose.facts import Unknown, Value, capture_setting, nothing_helps
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.roofline import owners
from diagnose.trace.vocabulary import ANNOTATIONS, OPS, OPTIMIZER_STEP, RUNTIME, SYNCHRONISATION

LOOP, OPERATOR, SCALER, COPY = _BY = ("the loop", "an operator", "GradScaler", "a copy to the device")
_CHECK = r"aten::_amp_foreach_non_finite_check_and_unscale_"
_OPERATOR = r"(?!autograd::)\w+::"
_READ = r"aten::_local_scalar_dense$"
_NO_OPERATORS = Unknown(
    "the trace shows no operators, so it is unknown who waits",
    capture_setting("ProfilerActivity.CPU and CUDA together"),
)
_NO_WAITS = Unknown("no call waits for the device", nothing_helps("the host runs ahead of it"))


class WaitingCalls(msgspec.Struct, frozen=True):
    """The kind of call that takes the host longest: its name, and its caller, None if that is not known."""

    call: str
    by: str | None


@metric("text")
def sync_call(m: Measured) -> Value:
    """The call with which the host waits longest for the device, such as cudaStreamSynchronize."""
    wait = m.once(_longest)
    return wait.call if wait else _NO_WAITS


@metric("text")
def sync_by(m: Measured) -> Value:
    """The caller: "an operator" that reads a value of the device, "GradScaler", which does so before each step of an
    optimizer that is not fused, "a copy to the device" that blocks, or "the loop", as with torch.cuda.synchronize().
    """
    wait = m.once(_longest)
    return (wait.by or _NO_OPERATORS) if wait else _NO_WAITS


def _longest(m: Measured) -> WaitingCalls | None:
    trace, rows = m.timeline.trace, _waits(m)
    if not len(rows):
        return None
    operators = m.timeline.rows_matching(_OPERATOR, *OPS)
    reader = owners.around(trace, operators, rows)
    others = [np.isin(reader, _scaler_reads(m)), among(reader, _copies_to_device(m, operators))]
    by = np.select([reader < 0, *others], [0, 2, 3], 1)
    kinds, which = owners.distinct(trace.name[rows], by)
    name, who = kinds[:, np.argmax(np.bincount(which, weights=trace.dur[rows]))].tolist()
    return WaitingCalls(trace.names[name], _BY[who] if len(operators) else None)


def _waits(m: Measured) -> Ints:
    """Calls of the counted steps, on threads that launch, that return when the device has come so far."""
    line = m.timeline
    calls = Host(line).long_copies()[1] | line.matching(SYNCHRONISATION, *RUNTIME)
    return m.in_steps_of_host(np.flatnonzero(calls & line.on_threads(line.launching_threads)))


def _copies_to_device(m: Measured, operators: Ints) -> Ints:
    """The operators among these that directly copy to the device."""
    gpu = m.timeline.gpu
    up = np.array([kind.sub == "HtoD" for kind in gpu.kinds], bool)[gpu.kind] & (gpu.launch >= 0)
    return owners.around(m.timeline.trace, operators, gpu.launch[up])


def _scaler_reads(m: Measured) -> Ints:
    """Reads with which GradScaler asks whether a gradient overflowed: the last before an optimizer's step, behind the
    check of the gradients.
    """
    trace = m.timeline.trace
    checks, reads, steps = (
        m.timeline.rows_matching(pattern, *ANNOTATIONS) for pattern in (_CHECK, _READ, OPTIMIZER_STEP)
    )
    reads = reads[np.argsort(trace.ts[reads], kind="stable")]
    last = np.searchsorted(trace.ts[reads], trace.ts[steps]) - 1
    reads = reads[np.unique(last[last >= 0])]
    checked, updated = (_latest(times, trace.ts[reads]) for times in (trace.ts[checks], trace.ends(steps)))
    return reads[checked > updated]


def _latest(times: Ints, before: Ints) -> Ints:
    """The latest of the times before each instant; none is as early as can be."""
    ordered = np.append(np.iinfo(np.int64).min, np.sort(times))
    return ordered[np.searchsorted(ordered, before) - 1]
