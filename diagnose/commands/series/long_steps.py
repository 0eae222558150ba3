"""The longest steps that are named by no stall: of five times those around and more, whatever the job's noise."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace as with_ranks

import numpy as np
from msgspec.structs import replace

from diagnose.commands.series.answer import Stall
from diagnose.commands.series.near_events import intervals, near
from diagnose.commands.series.seen_stalls import SeenStall, rows_of, time_of
from diagnose.commands.series.stall_findings import finding, spoken_times
from diagnose.facts import duration
from diagnose.series.change_points import ChangePoints
from diagnose.series.periodic import Beat
from diagnose.series.stalls import LEAST_TIMES, long_samples
from diagnose.series.tracks import LoggedRun, Track

MOST_LONG = 200  # of a run
_IRREGULAR = 2.0  # times the usual sample of its period: one that takes longer is not told by the period


def longest_of(
    runs: Sequence[LoggedRun], points: Mapping[str, Sequence[ChangePoints]], stalls: Sequence[Stall]
) -> tuple[Stall, ...]:
    """The long steps of all runs that no stall holds, each run's longest first."""
    told: list[Stall] = []
    for run in runs:
        of_run = points.get(run.name, ())
        named = [one for one in stalls if one.run == run.name and one.count == 1]
        free = [one for one in _long_in(run, of_run) if not any(_holds(stall, one) for stall in named)]
        told += [_told(run, one, points) for one in sorted(free, key=lambda one: -one.time_s)[:MOST_LONG]]
    return tuple(told)


def _holds(stall: Stall, one: SeenStall) -> bool:
    return stall.step <= one.step <= stall.last_step


def _told(run: LoggedRun, one: SeenStall, points: Mapping[str, Sequence[ChangePoints]]) -> Stall:
    stall = finding(run, one, {run.name: [one]}, points)
    certain = any(one.step in _steps_of_bursts(point) for point in points[run.name])
    more = f"{duration(one.cost_s * 1e9)} more ({100 * one.share:.2g} % of the run)"
    says = f"step {one.step:,}: {duration(one.time_s * 1e9)}, {spoken_times(stall.times)} the usual, {more}"
    return replace(stall, told_from_noise=certain or bool(stall.known_as), says=says)


def _steps_of_bursts(point: ChangePoints) -> frozenset[int]:
    return frozenset(int(step) for one in point.bursts for step in point.track.step[one.begin : one.end])


def _long_in(run: LoggedRun, points: Sequence[ChangePoints]) -> list[SeenStall]:
    """The long samples of a run; of several ranks at one step the longest stands for all."""
    if not points:
        return []
    whole = float(np.median([time_of(one) for one in points]))
    told = intervals(run, points[0].track, _slow_rows(points[0]))
    by_step: dict[int, SeenStall] = {}
    for at, point in enumerate(points):
        for track, row, level in _long_samples(point):
            step, time = int(track.step[row]), float(track.seconds[row]) * track.steps_each
            known = by_step.get(step)
            ranks = (*known.ranks, at) if known is not None else (at,)
            if known is None or time > known.time_s:
                cost, rows = time - level * track.steps_each, rows_of(track, row, row + 1)
                events = near(rows, 1, cost, told)
                known = SeenStall(step, step, time, cost, cost / whole, track, ranks, rows, near=events)
            by_step[step] = with_ranks(known, ranks=ranks)
    return list(by_step.values())


def _long_samples(point: ChangePoints) -> Iterator[tuple[Track, int, float]]:
    """The track, the row and the usual time of each long sample, those of a period included that take far longer."""
    edges = sorted({shift.at for shift in point.shifts} - {0})
    for row, level in zip(*long_samples(point.track, edges), strict=True):
        yield point.track, int(row), float(level)
    for beat in point.beats:
        yield from _irregular(beat)


def _slow_rows(point: ChangePoints) -> frozenset[int]:
    """Rows in the log of the long samples and of all that come periodically."""
    long = [rows_of(track, row, row + 1) for track, row, _ in _long_samples(point)]
    of_beats = [rows_of(beat.samples, 0, len(beat.samples)) for beat in point.beats]
    return frozenset(row for rows in (*long, *of_beats) for row in rows)


def _irregular(beat: Beat) -> Iterator[tuple[Track, int, float]]:
    seconds = beat.samples.seconds
    usual = seconds - beat.extra_s / beat.samples.steps_each
    long = (seconds >= LEAST_TIMES * usual) & (seconds >= _IRREGULAR * np.median(seconds))
    for row in np.flatnonzero(long):
        yield beat.samples, int(row), float(usual[row])
