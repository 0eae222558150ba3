"""The stalls of one run: merged over its ranks, with the events near them, and whether they keep a period."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from diagnose.commands.series.answer import Near
from diagnose.commands.series.near_events import intervals, near
from diagnose.series.change_points import ChangePoints
from diagnose.series.periodic import Beat
from diagnose.series.stalls import LEAST_EXCESS, LEAST_SHARE, LONGEST_WINDOW, running_level
from diagnose.series.tracks import LoggedRun, Track

_LISTED = 12  # slow samples of one period that are named one by one
_REGULAR = 0.75  # of the stalls that a period calls for are there
_PHASES = 20  # a period is that many samples at least
_ALL = 0.8  # of the ranks


@dataclass(frozen=True)
class SeenStall:
    """A stall of a run.

    Attributes:
        step: its first step, as the log counts.
        last_step: its last one.
        time_s: time of its steps on a rank.
        cost_s: the part of it beyond the steps around.
        share: `cost_s` of the time of all steps of the run.
        track: the first rank that has it.
        ranks: the tracks that have it, as places among those of the run.
        rows: its rows in the log.
        every: its period as the log counts, 0 if it keeps none.
        times: how often it comes with that period.
        count: slow steps that it puts together.
        near: events that the log holds before it.
    """

    step: int
    last_step: int
    time_s: float
    cost_s: float
    share: float
    track: Track
    ranks: tuple[int, ...]
    rows: tuple[int, ...] = ()
    every: int = 0
    times: int = 1
    count: int = 1
    near: tuple[Near, ...] = ()


def seen_in(run: LoggedRun, points: Sequence[ChangePoints]) -> tuple[SeenStall, ...]:
    """The stalls of a run, in order, those too small to be named included.

    Args:
        run: with its events.
        points: the change points of each of its tracks.
    """
    if not points:
        return ()
    whole = float(np.median([time_of(one) for one in points]))
    single = with_periods(_together(points, whole))
    best = max(points, key=lambda one: sum(len(beat.rows) for beat in one.beats))
    periodic = [seen for beat in best.beats for seen in _of_beat(beat, whole)]
    found = [*single, *periodic]
    told = intervals(run, best.track, frozenset(row for one in found for row in one.rows))
    return tuple(
        sorted(
            (replace(one, near=near(one.rows, one.count, one.cost_s, told)) for one in found),
            key=lambda one: one.step,
        )
    )


def time_of(point: ChangePoints) -> float:
    """Seconds of all steps of a track, without its warm-up."""
    beats = sum(float(beat.samples.seconds.sum()) * beat.samples.steps_each for beat in point.beats)
    return float(point.track.seconds.sum()) * point.track.steps_each + beats


def looked_for(point: ChangePoints, step: int, last_step: int, share: float) -> SeenStall | None:
    """The stall at steps where other runs have one, if the samples are slow enough; `share` of the run is the least."""
    track = point.track
    chosen = np.flatnonzero((track.step >= step) & (track.step <= last_step))
    if not len(chosen):
        return None
    level = running_level(track.seconds, sorted({shift.at for shift in point.shifts} - {0}), LONGEST_WINDOW)
    cost = float((track.seconds - level)[chosen].sum()) * track.steps_each
    whole = time_of(point)
    if float((track.seconds / level - 1)[chosen].mean()) < LEAST_EXCESS or cost < share * whole:
        return None
    time = float(track.seconds[chosen].sum()) * track.steps_each
    return SeenStall(
        step, last_step, time, cost, cost / whole, track, (0,), rows_of(track, int(chosen[0]), int(chosen[-1]) + 1)
    )


def rows_of(track: Track, begin: int, end: int) -> tuple[int, ...]:
    """Rows in the log of the samples [begin, end), none if the source has no rows."""
    return () if track.rows is None else tuple(int(row) for row in track.rows[begin:end])


def _together(points: Sequence[ChangePoints], whole: float) -> list[SeenStall]:
    """The bursts of all tracks; bursts of several ranks at the same steps are one stall, of median time and cost."""
    listed = [
        (int(one.track.step[burst.begin]), int(one.track.step[burst.end - 1]), at, burst)
        for at, one in enumerate(points)
        for burst in one.bursts
    ]
    clusters: list[list[tuple[int, int, int]]] = []
    bursts = [burst for _, _, _, burst in sorted(listed, key=lambda item: item[:3])]
    for place, (step, last, at, _) in enumerate(sorted(listed, key=lambda item: item[:3])):
        if clusters and step <= max(end for end, _, _ in clusters[-1]) + points[at].track.covers:
            clusters[-1].append((last, at, place))
        else:
            clusters.append([(last, at, place)])
    together = []
    for cluster in clusters:
        _, at, place = cluster[0]
        track, first = points[at].track, bursts[place]
        time = float(np.median([bursts[one].time_s for _, _, one in cluster]))
        cost = float(np.median([bursts[one].cost_s for _, _, one in cluster]))
        last = max(end for end, _, _ in cluster)
        ranks = tuple(sorted({one for _, one, _ in cluster}))
        rows = rows_of(track, first.begin, first.end)
        together.append(SeenStall(int(track.step[first.begin]), last, time, cost, cost / whole, track, ranks, rows))
    return together


def with_periods(seen: list[SeenStall]) -> list[SeenStall]:
    """Stalls with the period that most of them keep: three or more, or two of which the first ends one period."""
    if len(seen) < 2:
        return seen
    steps = np.array([one.step for one in seen])
    near = max(round(seen[0].track.covers), 1)
    for every in sorted({int(gap) for gap in np.diff(steps)}, reverse=False):
        if every < _PHASES * near:
            continue
        off = (steps[:, None] - steps[None, :] + every // 2) % every - every // 2
        hits = np.flatnonzero(np.abs(off[np.argmax(np.sum(np.abs(off) <= near, axis=1))]) <= near)
        called = (steps[hits[-1]] - steps[hits[0]]) / every + 1
        in_phase = abs(int(steps[hits[0]]) - every) <= 2 * near
        if len(hits) >= max(_REGULAR * called, 2, len(seen) / 2) and (len(hits) > 2 or (len(seen) == 2 and in_phase)):
            kept = set(hits.tolist())
            return [replace(one, every=every, times=len(hits)) if at in kept else one for at, one in enumerate(seen)]
    return seen


def _of_beat(beat: Beat, whole: float) -> list[SeenStall]:
    """Periodic slow samples: each on its own if they are few, else all as one."""
    track, extra = beat.samples, beat.extra_s
    times = track.seconds * track.steps_each
    count = len(track)
    if float(extra.sum()) < LEAST_SHARE * whole:
        return []
    if count > _LISTED:
        step, rows = int(track.step[0]), rows_of(track, 0, count)
        cost = float(extra.sum())
        one = SeenStall(step, step, float(times.sum()), cost, cost / whole, track, (0,), rows, beat.every, count, count)
        return [one]
    return [
        SeenStall(
            int(track.step[at]),
            int(track.step[at]),
            float(times[at]),
            float(extra[at]),
            float(extra[at]) / whole,
            track,
            (0,),
            rows_of(track, at, at + 1),
            beat.every,
            count,
        )
        for at in range(count)
    ]
