"""Step times over a whole job: since when it is slower, by how much, where, and which steps to look at."""

from diagnose.series.findings import Change, Periodic, SeriesReport, Stall, SuggestedCapture, to_json
from diagnose.series.judge import changes, judged
from diagnose.series.sources import read_runs, read_series, series_beside
from diagnose.series.told import told_without_traces
from diagnose.series.tracks import Series, Track

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
