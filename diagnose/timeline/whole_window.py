"""The window of a capture without steps: from its first work to its last."""

import re

import numpy as np

from diagnose.arrays import Ints, Mask
from diagnose.trace import Trace
from diagnose.trace.vocabulary import ANNOTATIONS, GPU_CATEGORIES, PYTHON, RUNTIME

_SYNCHRONISES = re.compile(r"(cuda|hip)DeviceSynchronize|cuCtxSynchronize")


def whole_window(trace: Trace) -> Ints:
    """The window from the first to the last event of host and device; without a GPU that of the host's work, and of the
    whole file if it shows none.
    """
    if trace.rows_of(*GPU_CATEGORIES).any():
        rows = used(trace)
        return np.array([[trace.ts[rows].min(), trace.ends(rows).max()]], np.int64)
    work = trace.rows_of(*ANNOTATIONS, *PYTHON)
    work = work if work.any() else np.ones(len(trace), bool)
    begin = int(trace.ts[work].min())
    return np.array([[begin, max(min(int(trace.ends(work).max()), _closing(trace)), begin)]], np.int64)


def _closing(trace: Trace) -> int:
    """Begin of the calls behind all operators with which a profiler ends, and which may start CUDA; the largest integer
    if there are none.
    """
    last, calls = trace.ends(trace.rows_of(*ANNOTATIONS)), np.flatnonzero(trace.rows_of(*RUNTIME))
    calls = calls[trace.ts[calls] >= last.max()] if len(last) else calls[:0]
    synchronises = any(_SYNCHRONISES.match(trace.names[name]) for name in np.unique(trace.name[calls]).tolist())
    return int(trace.ts[calls].min()) if synchronises else int(np.iinfo(np.int64).max)


def used(trace: Trace) -> Mask:
    """Mask of the events of host and device, or of all events if there are none of these."""
    rows = trace.rows_of(*GPU_CATEGORIES, *RUNTIME, *ANNOTATIONS, *PYTHON)
    return rows if rows.any() else np.ones(len(trace), bool)
