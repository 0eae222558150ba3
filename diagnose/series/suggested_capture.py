"""Which steps to profile, or to look at, next."""

from collections.abc import Sequence

import numpy as np

from diagnose.series.change_points import Found
from diagnose.series.findings import Change, Look, Periodic
from diagnose.series.tracks import Series, Track

_ACTIVE = 4  # steps that `diagnose run` records
_AFTER = 20  # steps into the new level


def looks(
    series: Series, found: Sequence[Found], changes: Sequence[Change], periodic: Sequence[Periodic]
) -> tuple[Look, ...]:
    """The steps to look at, the most telling first: of the largest change, before it, and of the largest period."""
    if not found:
        return ()
    told: list[Look] = []
    if changes:
        most = max(changes, key=lambda change: abs(change.change_share))
        word = "slower" if most.change_share > 0 else "faster"
        late = most.until_step - _ACTIVE - _AFTER if most.kind == "drift" else most.since_between[1] + _AFTER
        told.append(_look(series, late, most.since_step, most.until_step, periodic, f"the {word} steps"))
        before = most.since_between[0] - _AFTER if most.kind == "level" else most.since_step + _AFTER
        end = most.since_between[0] - 1 if most.kind == "level" else most.until_step
        told.append(_look(series, before, most.before_from_step, end, periodic, "the steps before, to compare with"))
    else:
        track = found[0].track
        told.append(_look(series, _typical(track), int(track.step[0]), int(track.step[-1]), periodic, "typical steps"))
    if periodic:
        beat = max(periodic, key=lambda one: one.time_share)
        at = beat.first_step + beat.every_steps * (beat.count // 2)
        told.append(_run(series, at - 1, f"around a slow step, one every {beat.every_steps:,}"))
    return tuple(told)


def _typical(track: Track) -> int:
    """A step in the middle of the last half whose time is the nearest to the median of that half."""
    half = np.arange(len(track) // 2, len(track))
    off = np.abs(track.seconds[half] - np.median(track.seconds[half]))
    return int(track.step[half[np.argmin(off)]])


def _look(series: Series, step: int, first: int, last: int, periodic: Sequence[Periodic], why: str) -> Look:
    """`step` moved into [first, last] and out of the way of periodic slow steps."""
    step = max(min(step, last - _ACTIVE + 1), first, 1)
    for beat in periodic:
        off = (step - beat.first_step) % beat.every_steps
        if beat.every_steps > 3 * _ACTIVE and (off > beat.every_steps - _ACTIVE - 1 or off == 0):
            step += (beat.every_steps - off) % beat.every_steps + 1
    return _run(series, step, why)


def _run(series: Series, step: int, why: str) -> Look:
    step, last = max(step, 1), max(step, 1) + _ACTIVE - 1
    files = _traced(series, step, last) if series.kind == "windows" else ()
    first = min((int(track.step[0] - round(track.covers) + 1) for track in series.tracks if len(track)), default=1)
    at = step + (first == 0)
    command = "" if files else f"diagnose run --at-step {at} --steps {_ACTIVE} --stop -- COMMAND"
    return Look(first_step=step, last_step=last, why=why, command=command, files=files)


def _traced(series: Series, first: int, last: int) -> tuple[str, ...]:
    """The trace of the window nearest to the steps."""
    track = series.tracks[0]
    if track.files is None or not len(track):
        return ()
    nearest = int(np.argmin(np.abs(track.step - (first + last) / 2)))
    return (series.files[int(track.files[nearest])],)
