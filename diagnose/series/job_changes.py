"""The changes of a job's step time over its ranks, each in a sentence."""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from diagnose.errors import printable
from diagnose.facts import duration
from diagnose.series.change import Change, Confidence
from diagnose.series.change_points import ALPHA, ChangePoints, search
from diagnose.series.scope import JointChange, affected, culprits, groups, part_changes
from diagnose.series.segments import MARGIN, MOST_BLOCKS
from diagnose.series.tracks import Series, Track

MOST_CHANGES = 12
_LEAST_BLOCKS = 200
_BLOCKS_IN_ALL = 64_000


def changes(series: Series) -> tuple[Change, ...]:
    """The changes of the job's step time, in order; none when it only fluctuates or is unknown."""
    return surest(changes_at(series, by_run(points_of(series))))


def points_of(series: Series) -> list[ChangePoints]:
    """The change points of each track that has enough samples."""
    tracks = [track for track in series.tracks if len(track) >= 2 * MARGIN]
    blocks = max(_BLOCKS_IN_ALL // max(len(tracks), 1), _LEAST_BLOCKS)
    return [search(track, ALPHA / len(tracks), min(blocks, MOST_BLOCKS)) for track in tracks]


def by_run(points: Sequence[ChangePoints]) -> dict[str, list[ChangePoints]]:
    """The same by the name of the run."""
    of_run: dict[str, list[ChangePoints]] = {}
    for point in points:
        of_run.setdefault(point.track.run, []).append(point)
    return of_run


def changes_at(series: Series, of_run: Mapping[str, Sequence[ChangePoints]]) -> list[Change]:
    """All changes of all runs."""
    return [change for points in of_run.values() for change in _changes(series, points)]


def surest(found: Sequence[Change]) -> tuple[Change, ...]:
    """The changes least likely by chance, in order of step."""
    return tuple(sorted(sorted(found, key=lambda c: c.p_value)[:MOST_CHANGES], key=lambda c: c.since_step))


def _changes(series: Series, points: Sequence[ChangePoints]) -> list[Change]:
    tracks = [one.track for one in points]
    return [_change(series, tracks, group) for group in groups(points)]


def _change(series: Series, tracks: Sequence[Track], group: JointChange) -> Change:
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


def _confidence(group: JointChange, tracks: Sequence[Track]) -> Confidence:
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
