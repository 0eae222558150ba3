"""Read trace files into columns: streamed, repaired if they are damaged, with the losses stated."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from diagnose.trace.choices import Loading

if TYPE_CHECKING:
    from diagnose.trace.columns import Collectives, ReadingLoss, Trace
    from diagnose.trace.discover import find_run
    from diagnose.trace.execution import with_shapes
    from diagnose.trace.loading import load, load_all
    from diagnose.trace.merged import ranks_of
    from diagnose.trace.reader import read
    from diagnose.trace.remote import displayed, on_this_machine
    from diagnose.trace.runs import TracedRun
    from diagnose.trace.streams import is_stream
    from diagnose.trace.workers import worthwhile

_HOMES = {
    "columns": ("Collectives", "ReadingLoss", "Trace"),
    "discover": ("find_run",),
    "execution": ("with_shapes",),
    "loading": ("load", "load_all"),
    "merged": ("ranks_of",),
    "reader": ("read",),
    "remote": ("displayed", "on_this_machine"),
    "runs": ("TracedRun",),
    "streams": ("is_stream",),
    "workers": ("worthwhile",),
}
__all__ = [
    "Collectives",
    "Loading",
    "ReadingLoss",
    "Trace",
    "TracedRun",
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


def __getattr__(name: str) -> Any:
    """Import the modules' attributes on first use: a command that finds a cached answer reads no trace."""
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
