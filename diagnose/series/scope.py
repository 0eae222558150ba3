"""The scope of a change: the tracks' changes merged into all ranks, a host, or some ranks, with the cause."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from diagnose.arrays import Floats
from diagnose.series.change import PartChange
from diagnose.series.change_points import ChangePoints, Shift
from diagnose.series.columns import PARTS
from diagnose.series.tracks import Track

_ALL = 0.8  # of the tracks
_OWN = 0.5  # of the typical change: a track with this much takes part
_TELLS = 0.5  # of the step's change: a rank whose part grew by this much, where others' did not
_OTHERS = 0.25


@dataclass(frozen=True)
class JointChange:
    """Changes of several tracks that are one: steps [since, until), against those from `before_from` on."""

    kind: str
    since: int
    between: tuple[int, int]
    before_from: int
    until: int
    before_s: float
    after_s: float
    p_value: float
    members: tuple[int, ...]


def groups(points: Sequence[ChangePoints]) -> tuple[JointChange, ...]:
    """The changes of all tracks that agree in direction and place, in order."""
    clusters: list[list[tuple[int, int, Shift]]] = []
    for item in _listed(points):
        home = next((c for c in clusters if _agree(points, c[0], item)), None)
        if home is None:
            clusters.append([item])
        else:
            home.append(item)
    return tuple(sorted((_group(points, cluster) for cluster in clusters), key=lambda group: group.since))


def _listed(points: Sequence[ChangePoints]) -> list[tuple[int, int, Shift]]:
    """(step, track, shift), the surest first: it is the one that others are compared with."""
    listed = [(_step(one.track, s.at), at, s) for at, one in enumerate(points) for s in one.shifts]
    return sorted(listed, key=lambda item: (item[2].p_value, item[0], item[1]))


def _step(track: Track, at: int) -> int:
    """The first step that the sample at `at` covers."""
    return int(track.step[at] - round(track.covers) + 1)


def _agree(points: Sequence[ChangePoints], one: tuple[int, int, Shift], other: tuple[int, int, Shift]) -> bool:
    (step, track, shift), (other_step, other_track, other_shift) = one, other
    if track == other_track or shift.kind != other_shift.kind:
        return False
    if (shift.after_s > shift.before_s) != (other_shift.after_s > other_shift.before_s):
        return False
    near = 10 * points[track].track.covers + max(
        _width(points[track].track, shift), _width(points[other_track].track, other_shift)
    )
    return abs(step - other_step) <= max(near, 0.01 * (points[track].track.step[-1] - points[track].track.step[0]))


def _width(track: Track, shift: Shift) -> int:
    return int(track.step[min(shift.high, len(track) - 1)] - track.step[shift.low])


def _group(points: Sequence[ChangePoints], cluster: list[tuple[int, int, Shift]]) -> JointChange:
    _, first, shift = cluster[0]
    track = points[first].track
    since = int(np.median([step for step, _, _ in cluster]))
    begin, end = _step(track, shift.begin), int(track.step[shift.end - 1])
    members = [position for _, position, _ in cluster]
    ratio = float(np.median([s.after_s / s.before_s for _, _, s in cluster]))
    members += [
        position
        for position, one in enumerate(points)
        if position not in members and _takes_part(one.track, begin, since, end, ratio)
    ]
    return JointChange(
        shift.kind,
        since,
        (min(_step(track, shift.low), since), max(_step(track, min(shift.high, len(track) - 1)), since)),
        begin,
        end,
        float(np.median([s.before_s for _, _, s in cluster])),
        float(np.median([s.after_s for _, _, s in cluster])),
        min(s.p_value for _, _, s in cluster),
        tuple(sorted(members)),
    )


def _takes_part(track: Track, begin: int, since: int, end: int, ratio: float) -> bool:
    around = medians_around(track, track.seconds, begin, since, end)
    if around is None:
        return False
    change = np.log(around[1] / around[0])
    return bool(np.sign(change) == np.sign(np.log(ratio)) and abs(change) >= _OWN * abs(np.log(ratio)))


def medians_around(track: Track, values: Floats, begin: int, since: int, end: int) -> tuple[float, float] | None:
    """Medians of the known `values` of steps [begin, since) and [since, end]; None when one side has fewer than 3."""
    before = values[(track.step >= begin) & (track.step < since)]
    after = values[(track.step >= since) & (track.step <= end)]
    before, after = before[np.isfinite(before)], after[np.isfinite(after)]
    if min(len(before), len(after)) < 3:
        return None
    return float(np.median(before)), float(np.median(after))


def affected(tracks: Sequence[Track], members: Sequence[int]) -> tuple[str, tuple[int, ...], tuple[str, ...]]:
    """Scope, ranks and hosts of the tracks at `members`."""
    chosen = [tracks[at] for at in members]
    ranks = tuple(sorted(t.rank for t in chosen if t.rank is not None))
    hosts = tuple(sorted({t.host for t in chosen if t.host}))
    if len(tracks) == 1:
        return "unknown", ranks, hosts
    if len(members) >= _ALL * len(tracks):
        return "job", tuple(sorted(t.rank for t in tracks if t.rank is not None)), _hosts(tracks)
    rest = {t.host for at, t in enumerate(tracks) if at not in set(members)}
    if hosts and len(hosts) < len(_hosts(tracks)) and all(t.host for t in chosen) and not rest & set(hosts):
        return "hosts", ranks, hosts
    return "ranks", ranks, hosts


def _hosts(tracks: Sequence[Track]) -> tuple[str, ...]:
    return tuple(sorted({t.host for t in tracks if t.host}))


def part_changes(tracks: Sequence[Track], group: JointChange) -> tuple[PartChange, ...]:
    """The logged parts of a step before and after the change."""
    changes = []
    for name in PARTS:
        pairs = [pair for track in tracks if (pair := _part(track, name, group)) is not None]
        if pairs:
            before, after = np.median(np.array(pairs), axis=0)
            changes.append(PartChange(part=name, before_s=float(before), after_s=float(after)))
    return tuple(changes)


def _part(track: Track, name: str, group: JointChange) -> tuple[float, float] | None:
    if name not in track.parts:
        return None
    return medians_around(track, track.parts[name], group.before_from, group.since, group.until)


def culprits(tracks: Sequence[Track], group: JointChange) -> tuple[str, tuple[int, ...]]:
    """The logged part that shows who makes all ranks slower, and the tracks that do; ("", ()) if none does.

    That is a rank whose compute or data time grew by half of the step's change while the others' did not; or one that
    does not wait longer while the others wait for half of the change.
    """
    grown = group.after_s - group.before_s
    if grown <= 0 or len(tracks) < 2:
        return "", ()
    for name in PARTS:
        changes = [_part(track, name, group) for track in tracks]
        if any(pair is None for pair in changes):
            continue
        growth = np.array([pair[1] - pair[0] for pair in changes if pair is not None]) / grown
        if name == "wait":
            chosen, others = growth < _OTHERS, growth >= _TELLS
        else:
            chosen, others = growth >= _TELLS, growth < _OTHERS
        if chosen.any() and (chosen | others).all() and chosen.sum() <= len(growth) / 2:
            return name, tuple(int(at) for at in np.flatnonzero(chosen))
    return "", ()
