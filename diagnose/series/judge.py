"""From step times to what they show: changes in words, what is periodic, and which steps to look at next."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from msgspec.structs import replace

from diagnose.errors import printable
from diagnose.facts import duration
from diagnose.series.beside_machine import with_machine
from diagnose.series.change_points import ALPHA, ChangePoints, search
from diagnose.series.findings import Change, Confidence, Periodic, SeriesReport
from diagnose.series.not_told import NotTold
from diagnose.series.run_reports import goodput_of_runs, run_reports
from diagnose.series.scope import Group, affected, culprits, groups, part_changes
from diagnose.series.segments import MARGIN, MOST_BLOCKS
from diagnose.series.stall_findings import stalls_of
from diagnose.series.suggested_capture import suggested_captures
from diagnose.series.tracks import Run, Series, Track

_SHAPE = 60
_MOST_CHANGES = 12
_LEAST_BLOCKS = 200
_BLOCKS_IN_ALL = 64_000
_AGAIN = "log at least 20 samples, each of the same number of steps"


def changes(series: Series) -> tuple[Change, ...]:
    """The changes of the job's step time, in order; none when it only fluctuates or is unknown."""
    return judged(series).changes


def judged(series: Series) -> SeriesReport:
    """All that the series shows."""
    tracks = [track for track in series.tracks if len(track) >= 2 * MARGIN]
    blocks = max(_BLOCKS_IN_ALL // max(len(tracks), 1), _LEAST_BLOCKS)
    points = [search(track, ALPHA / len(tracks), min(blocks, MOST_BLOCKS)) for track in tracks]
    of_run: dict[str, list[ChangePoints]] = {}
    for point in points:
        of_run.setdefault(point.track.run, []).append(point)
    told = [change for of_one in of_run.values() for change in _told(series, of_one)]
    kept = sorted(sorted(told, key=lambda c: c.p_value)[:_MOST_CHANGES], key=lambda c: c.since_step)
    periodic = tuple(beat for of_one in of_run.values() for beat in _periodic(of_one))
    stalls = stalls_of(series.runs or (Run(),), of_run)
    runs = run_reports(series, of_run, stalls)
    goodput, why = goodput_of_runs(runs)
    notes = [*series.notes, *_notes(series, points, told)]
    report = SeriesReport(
        kind=series.kind,
        files=series.files,
        unit=series.unit,
        first_step=min((int(t.step[0] - round(t.covers) + 1) for t in series.tracks if len(t)), default=0),
        last_step=max((int(t.step[-1]) for t in series.tracks if len(t)), default=0),
        samples=sum(len(t) for t in series.tracks),
        tracks=len(series.tracks),
        ranks=tuple(sorted({t.rank for t in series.tracks if t.rank is not None})),
        hosts=tuple(sorted({t.host for t in series.tracks if t.host})),
        median_s=_median(series.tracks),
        changes=tuple(kept),
        periodic=periodic,
        look=suggested_captures(series, points, kept, periodic, stalls),
        notes=tuple(notes),
        not_told=_not_told(series, tracks),
        shape=_shape(series.tracks),
        stalls=stalls,
        runs=runs,
        goodput=goodput,
        goodput_not_told=why,
    )
    return with_machine(report, series.machines)


def _not_told(series: Series, tracks: Sequence[Track]) -> NotTold | None:
    if series.unknown is not None:
        return NotTold(because=series.unknown.because, capture_next=series.unknown.capture_next)
    if not tracks:
        most = max((len(track) for track in series.tracks), default=0)
        return NotTold(because=f"{most} samples are too few to tell a change from noise", capture_next=_AGAIN)
    return None


def _told(series: Series, points: Sequence[ChangePoints]) -> list[Change]:
    tracks = [one.track for one in points]
    return [_change(series, tracks, group) for group in groups(points)]


def _change(series: Series, tracks: Sequence[Track], group: Group) -> Change:
    scope, ranks, hosts = affected(tracks, group.members)
    named_by, at = culprits(tracks, group) if scope == "job" else ("", ())
    guilty = [tracks[i] for i in at]
    restart = any(group.between[0] - 2 <= step <= group.between[1] + 2 for step in series.restarts)
    share = group.after_s / group.before_s - 1
    mean_after = group.after_s if group.kind == "level" else (group.before_s + group.after_s) / 2
    change = Change(
        kind="drift" if group.kind == "drift" else "level",
        since_step=group.since,
        since_between=group.between,
        before_from_step=group.before_from,
        until_step=group.until,
        before_s=group.before_s,
        after_s=group.after_s,
        change_share=share,
        lost_s=(mean_after - group.before_s) * (group.until - group.since + 1) / tracks[0].counts_per_step,
        scope=scope,  # type: ignore[arg-type]
        ranks=ranks,
        hosts=hosts,
        confidence=_confidence(group, tracks),
        p_value=group.p_value,
        says="",
        parts=part_changes(guilty or [tracks[i] for i in group.members], group),
        culprit_ranks=tuple(t.rank for t in guilty if t.rank is not None),
        culprit_hosts=tuple(sorted({t.host for t in guilty if t.host})),
        named_by=named_by,
        at_restart=restart,
        run=tracks[0].run,
    )
    return replace(change, says=spoken_change(change))


def _confidence(group: Group, tracks: Sequence[Track]) -> Confidence:
    track = tracks[group.members[0]]
    before = int(np.sum((track.step >= group.before_from) & (track.step < group.since)))
    after = int(np.sum((track.step >= group.since) & (track.step <= group.until)))
    size = abs(group.after_s / group.before_s - 1)
    if group.kind == "drift":
        before = after
    if group.p_value < 1e-6 and size >= 0.1 and min(before, after) >= 30:
        return "high"
    return "medium" if min(before, after) >= 15 else "low"


def spoken_change(change: Change) -> str:
    """The change in one sentence."""
    word = "slower" if change.change_share > 0 else "faster"
    size = f"{100 * abs(change.change_share):.0f} % {word}"
    times = f"{duration(change.before_s * 1e9)} -> {duration(change.after_s * 1e9)} per step"
    where = _where(change)
    if change.kind == "drift":
        return f"from step {change.since_step:,} to {change.until_step:,} the steps drift {size}{where} ({times})"
    return f"since step {change.since_step:,}: {size}{where} ({times})"


def _where(change: Change) -> str:
    if change.scope == "hosts":
        return f" on {_listed(change.hosts)}"
    if change.scope == "ranks":
        on = f" ({_listed(change.hosts)})" if change.hosts else ""
        return f" on {_numbered(change.ranks)}{on}" if change.ranks else " on some ranks"
    if change.scope == "job" and change.named_by:
        return f" on all ranks, which wait for {_guilty(change)}"
    return " on all ranks" if change.scope == "job" else ""


def _guilty(change: Change) -> str:
    on = f" ({_listed(change.culprit_hosts)})" if change.culprit_hosts else ""
    return f"{_numbered(change.culprit_ranks)}{on}" if change.culprit_ranks else _listed(change.culprit_hosts)


def _listed(names: Sequence[str], most: int = 4) -> str:
    shown = ", ".join(printable(name)[:60] for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _numbered(ranks: Sequence[int]) -> str:
    if len(ranks) > 2 and ranks[-1] - ranks[0] == len(ranks) - 1:
        return f"ranks {ranks[0]}-{ranks[-1]}"
    return ("rank " if len(ranks) == 1 else "ranks ") + _listed([str(rank) for rank in ranks], 8)


def _periodic(points: Sequence[ChangePoints]) -> tuple[Periodic, ...]:
    """The periodic slow steps of the track that has most of them."""
    best = max(points, key=lambda one: sum(len(beat.rows) for beat in one.beats), default=None)
    told = []
    if best is None:
        return ()
    for beat in best.beats:
        track, extra = best.track, float(np.median(beat.extra_s))
        whole = float(np.sum(track.seconds) * track.steps_each + np.sum(beat.extra_s))
        share = float(np.sum(beat.extra_s)) / whole
        says = (
            f"every {beat.every:,} steps one takes {duration(extra * 1e9)} more ({100 * share:.1f} % of the time of all"
            " steps): a checkpoint, an evaluation or a log, not a change"
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
    if len(told) > _MOST_CHANGES:
        notes.append(f"{len(told)} changes were found: the step time is unstable; the {_MOST_CHANGES} surest are named")
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


def _shape(tracks: Sequence[Track]) -> tuple[float, ...]:
    if not any(len(track) for track in tracks):
        return ()
    step = np.concatenate([t.step for t in tracks])
    seconds = np.concatenate([t.seconds for t in tracks])[np.argsort(step, kind="stable")]
    edges = np.linspace(0, len(seconds), min(_SHAPE, len(seconds)) + 1).astype(np.int64)
    return tuple(float(np.median(seconds[a:b])) for a, b in pairwise(edges))
