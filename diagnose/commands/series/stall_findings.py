"""Stalls as findings: which are worth naming, whether they come again, in other runs too, and what they cost."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from msgspec.structs import replace as with_words

from diagnose.commands.series.answer import Recurs, Stall
from diagnose.commands.series.seen_stalls import SeenStall, looked_for, seen_in, with_periods
from diagnose.facts import duration
from diagnose.series.change_points import ChangePoints
from diagnose.series.stalls import LEAST_SHARE
from diagnose.series.tracks import LoggedRun, Track

MOST_STALLS = 50  # of a run, the dearest
_ALL = 0.8  # of the ranks


def stalls_of(runs: Sequence[LoggedRun], points: Mapping[str, Sequence[ChangePoints]]) -> tuple[Stall, ...]:
    """The stalls of all runs, in order of runs and steps; those that cost little and never recur are left out.

    Args:
        runs: the runs; those of one job are compared.
        points: by the name of the run, the change points of each of its tracks.
    """
    told: list[Stall] = []
    for job in dict.fromkeys(run.job for run in runs):
        of_job = [run for run in runs if run.job == job and points.get(run.name)]
        seen = {run.name: seen_in(run, points[run.name]) for run in of_job}
        seen = {run.name: _with_shared(run.name, seen, points[run.name]) for run in of_job}
        for run in of_job:
            kept = [one for one in seen[run.name] if _worth_naming(one, seen)]
            dearest = sorted(kept, key=lambda one: -one.cost_s)[:MOST_STALLS]
            told += [finding(run, one, seen, points) for one in sorted(dearest, key=lambda one: one.step)]
    return tuple(told)


def _same(one: SeenStall, other: SeenStall) -> bool:
    """Whether two stalls are at the same steps, as far as their logs show."""
    near = max(one.track.covers, other.track.covers)
    return one.step <= other.last_step + near and other.step <= one.last_step + near


def _with_shared(
    name: str, seen: Mapping[str, Sequence[SeenStall]], points: Sequence[ChangePoints]
) -> tuple[SeenStall, ...]:
    """The stalls of a run, including those that are only certain because of the other runs."""
    own = list(seen[name])
    for other, theirs in seen.items():
        for one in theirs if other != name else ():
            if one.count == 1 and one.share >= LEAST_SHARE and not any(_same(one, mine) for mine in own):
                found = looked_for(points[0], one.step, one.last_step, LEAST_SHARE / 2)
                own += [replace(found, every=one.every, times=one.times)] if found is not None else []
    inserted = len(own) > len(seen[name])
    own.sort(key=lambda one: one.step)
    return tuple(with_periods(own) if inserted and all(one.count == 1 for one in own) else own)


def _worth_naming(one: SeenStall, seen: Mapping[str, Sequence[SeenStall]]) -> bool:
    """Whether it costs enough by itself, with those of its period, or in another run."""
    if one.share >= LEAST_SHARE:
        return True
    of_period = [other for theirs in seen.values() for other in theirs if one.every and other.every == one.every]
    alike = [other for theirs in seen.values() for other in theirs if _same(one, other)]
    together = sum(other.share for other in of_period) / max(len(seen), 1) >= LEAST_SHARE
    return together or (2 * one.share >= LEAST_SHARE and any(other.share >= LEAST_SHARE for other in alike))


def finding(
    run: LoggedRun,
    one: SeenStall,
    seen: Mapping[str, Sequence[SeenStall]],
    points: Mapping[str, Sequence[ChangePoints]],
) -> Stall:
    """The stall of a run in the answer; `seen` are the stalls of all runs of its job, by their names."""
    tracks = [point.track for point in points[run.name]]
    having = sum(any(_same(one, other) for other in theirs) for theirs in seen.values())
    reached = sum(any(int(point.track.step[-1]) >= one.step for point in points[name]) for name in seen)
    every = one.every or None
    recurs = None
    if one.every or having > 1:
        per_step = one.track.counts_per_step
        optimizer_steps = round(one.every / per_step) if one.every else None
        recurs = Recurs(
            every_steps=every, every_optimizer_steps=optimizer_steps, times=one.times, runs=having, of_runs=reached
        )
    ranks = tuple(tracks[at].rank for at in one.ranks if at < len(tracks))
    stall = Stall(
        step=one.step,
        last_step=one.last_step,
        optimizer_step=optimizer_step(tracks, one),
        time_s=one.time_s,
        cost_s=one.cost_s,
        run_share=one.share,
        gpu_hours=_gpu_hours(run, one, len(tracks)),
        recurs=recurs,
        near=one.near,
        ranks=tuple(rank for rank in ranks if rank is not None),
        run=run.name,
        job=run.job,
        says="",
        count=one.count,
    )
    return with_words(stall, says=spoken_stall(stall))


def optimizer_step(tracks: Sequence[Track], one: SeenStall) -> int:
    """The optimizer step at which a stall begins, from 1."""
    return tracks[0].optimizer_step(one.step)


def _gpu_hours(run: LoggedRun, one: SeenStall, tracks: int) -> float | None:
    """GPU-hours of a stall: of all GPUs if most ranks have it, else of those of the ranks that do."""
    if run.gpus is None:
        return None
    waiting = run.gpus if len(one.ranks) >= _ALL * tracks or one.every else run.gpus * len(one.ranks) / tracks
    return one.cost_s * waiting / 3600


def spoken_stall(stall: Stall) -> str:
    """The stall in one sentence."""
    steps = f"steps {stall.step:,} to {stall.last_step:,}" if stall.last_step > stall.step else f"step {stall.step:,}"
    times = f"{duration(stall.time_s * 1e9)}, {duration(stall.cost_s * 1e9)} more than the steps around"
    if stall.count > 1 and stall.recurs is not None:
        steps = f"every {stall.recurs.every_steps:,} steps from step {stall.step:,}"
        times = f"{stall.count} slow steps take {duration(stall.cost_s * 1e9)} more than the steps around"
    return f"{steps}: {times}, {100 * stall.run_share:.2g} % of the time of the run's steps"


def spoken_times(times: float) -> str:
    """How many times as long."""
    return f"{times:.2g}x" if times < 100 else "over 100x"
