"""Step times over a whole job: since when it is slower, by how much, where, and which steps to look at."""

from typing import TYPE_CHECKING, Any

from diagnose.series.findings import Change, Periodic, SeriesReport, Stall, SuggestedCapture, to_json
from diagnose.series.sources import read_runs, read_series, series_beside
from diagnose.series.told import told_without_traces
from diagnose.series.tracks import Series, Track

if TYPE_CHECKING:
    from diagnose.series.judge import changes, judged

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
    """The statistics load when they are asked for: most traces have no log beside them."""
    if name not in ("changes", "judged"):
        raise AttributeError(f"module {__name__} has no attribute {name}")
    from diagnose.series import judge

    return getattr(judge, name)
