"""Step times over a whole job: since when it is slower, by how much, where, and which steps to look at."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diagnose.series.change import Change
    from diagnose.series.findings import Periodic, SeriesReport, Stall, SuggestedCapture, to_json
    from diagnose.series.job_changes import changes
    from diagnose.series.judge import judged
    from diagnose.series.sources import read_runs, read_series, series_beside
    from diagnose.series.told import told_without_traces
    from diagnose.series.tracks import Series, Track

_HOMES = {
    "change": ("Change",),
    "job_changes": ("changes",),
    "findings": ("Periodic", "SeriesReport", "Stall", "SuggestedCapture", "to_json"),
    "judge": ("judged",),
    "sources": ("read_runs", "read_series", "series_beside"),
    "told": ("told_without_traces",),
    "tracks": ("Series", "Track"),
}
__all__ = [
    "Change",
    "Periodic",
    "Series",
    "SeriesReport",
    "Stall",
    "SuggestedCapture",
    "Track",
    "changes",
    "judged",
    "read_runs",
    "read_series",
    "series_beside",
    "to_json",
    "told_without_traces",
]


def __getattr__(name: str) -> Any:
    """What a module has, on first use: most traces have no log beside them."""
    home = next((home for home, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
