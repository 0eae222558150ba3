"""Figures of each run, and the parts of the wall time of all of them."""

from collections.abc import Mapping, Sequence

import numpy as np

from diagnose.commands.series.answer import Goodput, RunReport, Stall
from diagnose.commands.series.goodput import PARTS, goodput, goodput_of
from diagnose.commands.series.seen_stalls import time_of
from diagnose.formulas import share
from diagnose.series.change_points import ChangePoints
from diagnose.series.not_told import NotTold
from diagnose.series.tracks import LoggedRun, Series, Track

_NO_CLOCK = NotTold(
    because="the log has no clock, so that time outside the steps does not show",
    capture_next="log a clock with each step (a column timestamp, or lines that begin with date and time)",
)


def run_reports(
    series: Series, points: Mapping[str, Sequence[ChangePoints]], stalls: Sequence[Stall]
) -> tuple[RunReport, ...]:
    """The runs that have samples, in their order; `points` by the name of the run."""
    reports = []
    for run in series.runs or (LoggedRun(),):
        tracks = [track for track in series.tracks if track.run == run.name and len(track)]
        if tracks:
            reports.append(
                _report(run, tracks, points.get(run.name, ()), [one for one in stalls if one.run == run.name])
            )
    return tuple(reports)


def _report(
    run: LoggedRun, tracks: Sequence[Track], points: Sequence[ChangePoints], stalls: Sequence[Stall]
) -> RunReport:
    first = tracks[0]
    whole = float(np.median([time_of(one) for one in points])) if points else 0.0
    slow = [row for one in points[:1] for row in _slow_rows(one)]
    return RunReport(
        name=run.name,
        job=run.job,
        gpus=run.gpus,
        first_step=int(first.step[0]),
        last_step=int(first.step[-1]),
        samples=sum(len(track) for track in tracks),
        median_s=float(np.median([np.median(track.seconds) for track in tracks])),
        steps_s=float(np.median([float(track.seconds.sum()) * track.steps_each for track in tracks])),
        stalls_share=share(sum(one.cost_s for one in stalls), whole) or 0.0,
        goodput=goodput(run, slow, first.counts_per_step),
    )


def _slow_rows(point: ChangePoints) -> list[int]:
    """The rows of the log that are stalls, or that come periodically."""
    rows = [beat.samples.rows for beat in point.beats if beat.samples.rows is not None]
    if point.track.rows is not None:
        rows += [point.track.rows[burst.begin : burst.end] for burst in point.bursts]
    return [int(row) for some in rows for row in some]


def goodput_of_runs(runs: Sequence[RunReport]) -> tuple[Goodput | None, NotTold | None]:
    """Goodput of all runs together, or why there is none."""
    told = [run.goodput for run in runs if run.goodput is not None]
    if not told or len(told) < len(runs):
        return None, _NO_CLOCK
    parts = {name: sum(part.time_s for one in told for part in one.parts if part.what == name) for name in PARTS}
    return goodput_of(sum(one.wall_s for one in told), parts), None
