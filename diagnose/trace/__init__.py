"""Trace files to columns: streamed, repaired where they are broken, with what was lost stated."""

from diagnose.trace.columns import Collectives, Loss, Trace
from diagnose.trace.discover import Run, find_run
from diagnose.trace.execution import with_shapes
from diagnose.trace.loading import Loading, load, load_all
from diagnose.trace.merged import ranks_of
from diagnose.trace.reader import read
from diagnose.trace.remote import displayed, on_this_machine
from diagnose.trace.streams import is_stream
from diagnose.trace.workers import worthwhile

__all__ = [
    "Collectives",
    "Loading",
    "Loss",
    "Run",
    "Trace",
    "displayed",
    "find_run",
    "is_stream",
    "load",
    "load_all",
    "on_this_machine",
    "ranks_of",
    "read",
    "with_shapes",
    "worthwhile",
]
