"""Columns that HolisticTraceAnalysis derives row by row, derived here from whole columns."""

import re

import numpy as np

from diagnose.arrays import Ints
from diagnose.trace import Trace

_STEP = re.compile(r"ProfilerStep\s*#\s*(\d+)")
_ON_DEVICE_WITHOUT_STREAM = ("Event Sync", "Context Sync")

NOT_LINKED = -1


def partners(trace: Trace) -> Ints:
    """For each row, the row of its launch or of the activity it launched; NOT_LINKED without one; shape (rows,).

    Launch and activity share their correlation; of several the last in the file counts.
    """
    synchronises = trace.named(lambda name: name in _ON_DEVICE_WITHOUT_STREAM)
    on_device = ((trace.stream >= 0) & (trace.correlation >= 0)) | synchronises
    partner = np.full(len(trace), NOT_LINKED, np.int64)
    correlated = trace.correlation != -1
    device, host = np.flatnonzero(on_device & correlated), np.flatnonzero(~on_device & correlated)
    partner[host] = _last_with(trace.correlation[host], trace.correlation[device], device)
    partner[device] = _last_with(trace.correlation[device], trace.correlation[host], host)
    return partner


def _last_with(wanted: Ints, keys: Ints, rows: Ints) -> Ints:
    """The last of the `rows` with each wanted key; NOT_LINKED without one."""
    if not len(keys):
        return np.full(len(wanted), NOT_LINKED, np.int64)
    order = np.argsort(keys, kind="stable")
    at = np.searchsorted(keys[order], wanted, side="right") - 1
    last = order[np.maximum(at, 0)]
    return np.where((at >= 0) & (keys[last] == wanted), rows[last], NOT_LINKED)


def iterations(trace: Trace, partner: Ints) -> Ints:
    """The number of the profiler step that each row belongs to, -1 outside of them; shape (rows,).

    Host rows belong to the step in which they begin, activities to that of their launch.
    """
    steps = _steps_at(trace)
    on_device = (trace.stream >= 0) & (trace.correlation >= 0)
    linked = partner[on_device]
    steps[on_device] = np.where(linked == NOT_LINKED, -1, steps[linked])
    return steps


def _steps_at(trace: Trace) -> Ints:
    """The step in which each row begins; if several are open, on host or device, the last in the file."""
    steps = np.full(len(trace), -1, np.int64)
    numbers = {at: int(match[1]) for at, name in enumerate(trace.names) if (match := _STEP.match(name))}
    rows = np.flatnonzero(np.isin(trace.name, list(numbers)))
    order = np.argsort(trace.ts, kind="stable")
    begins = trace.ts[order]
    for row in rows:
        begin, end = np.searchsorted(begins, (trace.ts[row], trace.ts[row] + trace.dur[row]))
        steps[order[begin:end]] = numbers[int(trace.name[row])]
    return steps
