"""Step times of a whole job, read from any source that has them, and their changes."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diagnose.series.change import Change
    from diagnose.series.job_changes import changes
    from diagnose.series.several import read_runs
    from diagnose.series.sources import read_series, series_beside
    from diagnose.series.tracks import Series, Track
    from diagnose.series.without_traces import read_without_traces

_HOMES = {
    "change": ("Change",),
    "job_changes": ("changes",),
    "several": ("read_runs",),
    "sources": ("read_series", "series_beside"),
    "without_traces": ("read_without_traces",),
    "tracks": ("Series", "Track"),
}
__all__ = [
    "Change",
    "Series",
    "Track",
    "changes",
    "read_runs",
    "read_series",
    "read_without_traces",
    "series_beside",
]


def __getattr__(name: str) -> Any:
    """Import the modules' attributes on first use: most traces have no log next to them."""
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
