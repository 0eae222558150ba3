"""Suggest the steps to profile, or to look at, next."""

from collections.abc import Sequence

import numpy as np

from diagnose.commands.series.answer import Periodic, Stall, SuggestedCapture
from diagnose.series.change import Change
from diagnose.series.change_points import ChangePoints
from diagnose.series.tracks import Series, Track

_ACTIVE = 4  # steps that `diagnose run` records
_AFTER = 20  # steps into the new level
_MOST_STALLS = 3
JOB = "python train.py"
_USUAL_TRIGGER, _HIGHEST_TRIGGER = 3, 20  # times the usual step
_BELOW = 0.7  # of the step that is waited for


def if_slow(stalls: Sequence[Stall]) -> str:
    """The command that waits for a step like the longest of them, or for any slow one."""
    times = max((one.times for one in stalls), default=0.0)
    trigger = int(min(max(_BELOW * times, _USUAL_TRIGGER), _HIGHEST_TRIGGER))
    return f"diagnose run --arm --when-slow {trigger} -- {JOB}"


def suggested_captures(
    series: Series,
    points: Sequence[ChangePoints],
    changes: Sequence[Change],
    periodic: Sequence[Periodic],
    stalls: Sequence[Stall] = (),
) -> tuple[SuggestedCapture, ...]:
    """The steps to look at: of the dearest stalls, of the largest change, before it, and of the largest period.

    None for a stall that the log explains.
    """
    if not points:
        return ()
    suggested = _stalled(series, [one for one in stalls if not one.known_as])
    if changes:
        most = max(changes, key=lambda change: abs(change.change_share))
        suggested += [_steps_after(series, most, periodic), _steps_before(series, most, periodic)]
    else:
        track = points[0].track
        first, last = int(track.step[0]), int(track.step[-1])
        suggested.append(_between(series, _typical(track), first, last, periodic, "typical steps"))
    told = {one.recurs.every_steps for one in stalls if one.recurs is not None}
    if others := [one for one in periodic if one.every_steps not in told]:
        beat = max(others, key=lambda one: one.time_share)
        at = beat.first_step + beat.every_steps * (beat.count // 2)
        suggested.append(_run(series, at - 1, f"around a slow step, one every {beat.every_steps:,}"))
    return tuple(suggested)


def _stalled(series: Series, stalls: Sequence[Stall]) -> list[SuggestedCapture]:
    """Captures around the first stall of each kind that recurs, the dearest kind first; else around the dearest."""
    recurring = sorted((one for one in stalls if one.recurs is not None), key=lambda one: (one.step, -one.cost_s))
    kinds: dict[object, list[Stall]] = {}
    for one in recurring:
        period = one.recurs.every_steps if one.recurs else None
        kinds.setdefault((one.job, period or one.step), []).append(one)
    dearest = sorted(kinds.values(), key=lambda of_kind: -max(one.cost_s for one in of_kind))[:_MOST_STALLS]
    if not dearest and stalls:
        most = max(stalls, key=lambda one: one.cost_s)
        return [_run(series, most.step - _before(series, most), "around the dearest stall, should it come again", most)]
    return [_run(series, one[0].step - _before(series, one[0]), _why(one[0]), one[0]) for one in dearest]


def _before(series: Series, stall: Stall) -> int:
    """The step before the stall, as the log counts."""
    return round(_track_of(series, stall).counts_per_step)


def _why(stall: Stall) -> str:
    recurs = stall.recurs
    if recurs is not None and recurs.every_optimizer_steps:
        return f"around a stall that comes every {recurs.every_optimizer_steps:,} steps"
    return "around a stall that comes at the same step in several runs"


def _track_of(series: Series, stall: Stall | None) -> Track:
    return next(track for track in series.tracks if len(track) and (stall is None or track.run == stall.run))


def _steps_after(series: Series, change: Change, periodic: Sequence[Periodic]) -> SuggestedCapture:
    word = "slower" if change.change_share > 0 else "faster"
    late = change.until_step - _ACTIVE - _AFTER if change.kind == "drift" else change.since_between[1] + _AFTER
    return _between(series, late, change.since_step, change.until_step, periodic, f"the {word} steps")


def _steps_before(series: Series, change: Change, periodic: Sequence[Periodic]) -> SuggestedCapture:
    early = change.since_between[0] - _AFTER if change.kind == "level" else change.since_step + _AFTER
    end = change.since_between[0] - 1 if change.kind == "level" else change.until_step
    return _between(series, early, change.before_from_step, end, periodic, "the steps before, to compare with")


def _typical(track: Track) -> int:
    """A step in the middle of the last half whose time is the nearest to the median of that half."""
    half = np.arange(len(track) // 2, len(track))
    off = np.abs(track.seconds[half] - np.median(track.seconds[half]))
    return int(track.step[half[np.argmin(off)]])


def _between(
    series: Series, step: int, first: int, last: int, periodic: Sequence[Periodic], why: str
) -> SuggestedCapture:
    """`step` moved into [first, last] and away from periodic slow steps."""
    step = max(min(step, last - _ACTIVE + 1), first, 1)
    for beat in periodic:
        off = (step - beat.first_step) % beat.every_steps
        if beat.every_steps > 3 * _ACTIVE and (off > beat.every_steps - _ACTIVE - 1 or off == 0):
            step += (beat.every_steps - off) % beat.every_steps + 1
    return _run(series, step, why)


def _run(series: Series, step: int, why: str, stall: Stall | None = None) -> SuggestedCapture:
    track = _track_of(series, stall)
    step, last = max(step, 1), max(step, 1) + _ACTIVE * round(track.counts_per_step) - 1
    files = _traced(series, step, last) if series.kind == "windows" else ()
    at = max(track.optimizer_step(step), 1)
    command = "" if files else f"diagnose run --at-step {at} --steps {_ACTIVE} --stop -- {JOB}"
    return SuggestedCapture(first_step=step, last_step=last, why=why, command=command, files=files)


def _traced(series: Series, first: int, last: int) -> tuple[str, ...]:
    """The trace of the window nearest to the steps."""
    track = series.tracks[0]
    if track.files is None or not len(track):
        return ()
    nearest = int(np.argmin(np.abs(track.step - (first + last) / 2)))
    return (series.files[int(track.files[nearest])],)
