"""Judge step times: changes, periodic stalls, and which steps to look at next."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from msgspec.structs import replace

from diagnose.commands.series.answer import Periodic, RunReport, SeriesReport, Spread, Stall
from diagnose.commands.series.goodput import PARTS, goodput, goodput_of
from diagnose.commands.series.long_steps import longest_of
from diagnose.commands.series.machine_moves import machine_at_change, machine_at_stall
from diagnose.commands.series.machine_over_run import machine_over_run
from diagnose.commands.series.remedies import remedies_of
from diagnose.commands.series.seen_stalls import time_of
from diagnose.commands.series.stall_findings import stalls_of
from diagnose.commands.series.suggested_capture import suggested_captures
from diagnose.diagnosis import Goodput
from diagnose.facts import duration
from diagnose.formulas import share
from diagnose.series.change import Change
from diagnose.series.change_points import ChangePoints
from diagnose.series.job_changes import MOST_CHANGES, by_run, changes_at, points_of, surest
from diagnose.series.machine.readings import MachineReadings
from diagnose.series.not_told import NotTold
from diagnose.series.rank_times import rank_times
from diagnose.series.tracks import LoggedRun, Series, Track

_SHAPE = 60
SLOW = 2.0  # times the median: no usual step
_AGAIN = "log at least 20 samples, each of the same number of steps"


def judged(series: Series) -> SeriesReport:
    """Judge the series."""
    points = points_of(series)
    of_run = by_run(points)
    told = changes_at(series, of_run)
    kept = surest(told)
    periodic = tuple(beat for of_one in of_run.values() for beat in _periodic(of_one))
    logged = series.runs or (LoggedRun(),)
    stalls = stalls_of(logged, of_run)
    longest = longest_of(logged, of_run, stalls)
    settled = _settled(series.tracks, points)
    runs = run_reports(series, of_run, stalls)
    goodput, why = goodput_of_runs(runs)
    notes = [*series.notes, *_notes(series, points, told)]
    report = SeriesReport(
        kind=series.kind,
        rank_times=rank_times(series),
        files=series.files,
        unit=series.unit,
        first_step=min((int(t.step[0] - round(t.covers) + 1) for t in series.tracks if len(t)), default=0),
        last_step=max((int(t.step[-1]) for t in series.tracks if len(t)), default=0),
        samples=sum(len(t) for t in series.tracks),
        tracks=len(series.tracks),
        ranks=tuple(sorted({t.rank for t in series.tracks if t.rank is not None})),
        hosts=tuple(sorted({t.host for t in series.tracks if t.host})),
        median_s=_median(series.tracks),
        changes=kept,
        periodic=periodic,
        look=suggested_captures(series, points, kept, periodic, stalls),
        notes=tuple(notes),
        not_told=_not_told(series, points),
        shape=_shape(settled),
        stalls=stalls,
        longest=longest,
        remedies=remedies_of(series, stalls, longest, periodic, goodput),
        runs=runs,
        goodput=goodput,
        goodput_not_told=why,
        spread=spread_of(settled),
        listed=() if points else _listed(series.tracks),
    )
    return with_machine(report, series.machines)


def _not_told(series: Series, points: Sequence[ChangePoints]) -> NotTold | None:
    if series.unknown is not None:
        return NotTold(because=series.unknown.because, capture_next=series.unknown.capture_next)
    if not points:
        most = max((len(track) for track in series.tracks), default=0)
        return NotTold(because=f"{most} samples are too few to tell a change from noise", capture_next=_AGAIN)
    return None


def _periodic(points: Sequence[ChangePoints]) -> tuple[Periodic, ...]:
    """The periodic slow steps of the track that has most of them."""
    best = max(points, key=lambda one: sum(len(beat.rows) for beat in one.beats), default=None)
    told = []
    if best is None:
        return ()
    for beat in best.beats:
        track, extra = best.track, float(np.median(beat.extra_s))
        share = float(np.sum(beat.extra_s)) / time_of(best)
        says = (
            f"every {beat.every:,} steps one takes {duration(extra * 1e9)} more ({100 * share:.1f} % of the time of all"
            " steps): work that comes again, not a change"
        )
        told.append(
            Periodic(
                every_steps=beat.every,
                first_step=beat.first,
                count=len(beat.rows),
                extra_s=extra,
                time_share=share,
                says=says,
                run=track.run,
            )
        )
    return tuple(told)


def _notes(series: Series, points: Sequence[ChangePoints], told: Sequence[Change]) -> list[str]:
    notes = []
    warm = max((one.warmup for one in points), default=0)
    if warm:
        notes.append(f"left out as warm-up, slower than what follows: the first {warm} sample{'s' * (warm > 1)}")
    if len(told) > MOST_CHANGES:
        notes.append(f"{len(told)} changes were found: the step time is unstable; the {MOST_CHANGES} surest are named")
    short = len(series.tracks) - len(points)
    if short and points:
        notes.append(f"{short} of {len(series.tracks)} ranks have fewer than 20 samples and are not judged")
    if any(change.scope == "job" and not change.named_by for change in told):
        notes.append(
            "in a synchronous job all ranks slow down together, so step times alone cannot tell which rank the others"
            " wait for: log the compute or the wait time of each rank (columns compute_time or wait_time)"
        )
    if series.restarts and told:
        notes.append("diagnose run --at-step counts from the start of its process: take off the step it resumes from")
    return notes


def _median(tracks: Sequence[Track]) -> float | None:
    kept = [float(np.median(track.seconds)) for track in tracks if len(track)]
    return float(np.median(kept)) if kept else None


def spread_of(tracks: Sequence[Track]) -> Spread | None:
    """The usual and the slowest samples; None if there is none."""
    kept = [track for track in tracks if len(track)]
    if not kept:
        return None
    most = max(kept, key=lambda track: float(track.seconds.max()))
    middle, at = float(np.median(most.seconds)), int(np.argmax(most.seconds))
    slow = most.seconds >= SLOW * middle
    return Spread(
        median_s=float(np.median([np.median(track.seconds) for track in kept])),
        shortest_s=min(float(track.seconds.min()) for track in kept),
        p99_s=float(np.quantile(np.concatenate([track.seconds for track in kept]), 0.99)),
        longest_s=float(most.seconds[at]),
        longest_step=int(most.step[at]),
        longest_run=most.run,
        samples=len(most),
        slow=int(slow.sum()),
        slow_extra_s=float((most.seconds[slow] - middle).sum() * most.steps_each),
        whole_s=float(most.seconds.sum() * most.steps_each),
    )


def _settled(tracks: Sequence[Track], points: Sequence[ChangePoints]) -> list[Track]:
    """The tracks without the samples that are left out as warm-up."""
    warm = {(one.track.run, one.track.rank, one.track.host): one.warmup for one in points}
    first = [warm.get((track.run, track.rank, track.host), 0) for track in tracks]
    return [track.part(np.arange(at, len(track))) for at, track in zip(first, tracks, strict=True)]


def _listed(tracks: Sequence[Track]) -> tuple[tuple[int, float], ...]:
    """Step and seconds of the samples of the longest track."""
    longest = max(tracks, key=len, default=None)
    if longest is None:
        return ()
    return tuple((int(step), float(time)) for step, time in zip(longest.step, longest.seconds, strict=True))


def _shape(tracks: Sequence[Track]) -> tuple[float, ...]:
    """The longest sample of each stretch that holds a slow one, else the median of the stretch."""
    if not any(len(track) for track in tracks):
        return ()
    step = np.concatenate([t.step for t in tracks])
    seconds = np.concatenate([t.seconds for t in tracks])[np.argsort(step, kind="stable")]
    edges = np.linspace(0, len(seconds), min(_SHAPE, len(seconds)) + 1).astype(np.int64)
    slow = SLOW * float(np.median(seconds))
    stretches = [seconds[a:b] for a, b in pairwise(edges)]
    return tuple(float(one.max() if one.max() >= slow else np.median(one)) for one in stretches)


# The machine's part of a report: over the run, at each change and at each stall.


def with_machine(report: SeriesReport, machines: Sequence[MachineReadings] | None) -> SeriesReport:
    """The report with the readings of `machines`; unchanged if the source could hold none."""
    if machines is None:
        return report
    return replace(
        report,
        machine=machine_over_run(machines),
        changes=tuple(_at_change(change, machines) for change in report.changes),
        stalls=tuple(_at_stall(stall, machines) for stall in report.stalls),
    )


def _at_change(change: Change, machines: Sequence[MachineReadings]) -> Change:
    """The change with readings of the ranks that are waited for, or if unknown of those that have the change."""
    ranks = change.culprit_ranks or change.ranks
    asked = [machine for machine in machines if machine.rank in ranks] or machines
    first, last = change.since_step, change.until_step
    before = (float(change.before_from_step), float(change.since_between[0] - 1))
    after = (float(change.since_between[1]), float(last))
    if change.kind == "drift":
        third = (last - first) / 3
        before, after = (float(first), first + third), (last - third, float(last))
    return replace(change, machine=machine_at_change(asked, before, after, change.change_share > 0))


def _at_stall(stall: Stall, machines: Sequence[MachineReadings]) -> Stall:
    """The stall with readings of the machine; unchanged if it stands for several that keep a period."""
    if stall.count > 1:
        return stall
    asked = [machine for machine in machines if machine.rank in stall.ranks] or machines
    return replace(stall, machine=machine_at_stall(asked, stall.step, stall.last_step, stall.time_s))


# Figures of each run, and the parts of the wall time of all of them.

_NO_CLOCK = NotTold(
    because="unknown, because the log has no clock: pauses between steps are unseen",
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
