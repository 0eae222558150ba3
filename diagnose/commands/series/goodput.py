"""Parts of the wall time of a run, from the clock of its log; they add up to it."""

from collections.abc import Sequence

import numpy as np

from diagnose.arrays import Mask
from diagnose.diagnosis import Goodput
from diagnose.series.ordering import stray
from diagnose.series.stalls import LONGEST_WINDOW, running_level
from diagnose.series.tracks import LogEvent, LoggedRun, LoggedSteps

PARTS = ("productive", "stalls", "checkpoints", "evaluations", "restarts", "idle")
_PART_OF = {"checkpoint": "checkpoints", "evaluation": "evaluations", "restart": "restarts"}
_LEAST_ROWS = 3


def goodput(run: LoggedRun, slow_rows: Sequence[int], counts_per_step: float = 1.0) -> Goodput | None:
    """Parts of the time from the first logged step of a run to its last; None if the log has no clock.

    Between two rows the steps take the time that the log states, else all of it; their expected time is the running
    median. Steps trained again after a restart, and the time until it, are `restarts`. The excess of rows of a stall,
    or of rows with an evaluation or a checkpoint before them, is theirs; time outside the steps with neither is `idle`.

    Args:
        run: with its rows and events.
        slow_rows: the rows of the log that are stalls or come periodically.
        counts_per_step: `Track.counts_per_step`.
    """
    log = _cleaned(run.log) if run.log is not None else None
    if log is None or len(log.step) < _LEAST_ROWS:
        return None
    took = np.maximum(np.diff(log.clock_s), 0.0)
    steps = np.diff(log.step) / counts_per_step
    wall = float(took.sum())
    if wall <= 0:
        return None
    again = _again(log)
    each = np.where(np.isfinite(log.duration_s[1:]), log.duration_s[1:], took / np.maximum(steps, 1e-9))
    level = np.zeros(len(each))
    level[~again] = running_level(each[~again], window=LONGEST_WINDOW)
    in_steps = np.minimum(np.where(np.isfinite(log.duration_s[1:]), steps * each, took), took + 2.0)
    slow = np.maximum(in_steps - steps * level, 0.0)
    outside = took - in_steps
    parts = dict.fromkeys(PARTS, 0.0)
    parts["restarts"] = float(took[again].sum())
    told, stalled = _parts_of(log, run.events), np.isin(log.row[1:], np.asarray(slow_rows, np.int64))
    for at in np.flatnonzero(~again & (stalled | (told != ""))):
        part = str(told[at]) or "stalls"
        parts[part] += float(slow[at]) + (max(float(outside[at]), 0.0) if told[at] else 0.0)
    parts["idle"] = max(float(outside[~again & (told == "")].sum()), 0.0)
    return goodput_of(wall, parts)


def goodput_of(wall: float, parts: dict[str, float]) -> Goodput:
    """The parts with their shares; time of no other part is productive."""
    lost = sum(parts[name] for name in PARTS[1:])
    fits = min(wall / lost, 1.0) if lost > 0 else 1.0  # clocks of whole seconds may give a little more than there is
    parts = {name: parts[name] * fits for name in PARTS[1:]}
    parts["productive"] = max(wall - sum(parts.values()), 0.0)
    return Goodput.of(wall, {name: parts[name] for name in PARTS})


def _cleaned(log: LoggedSteps) -> LoggedSteps:
    """The log without single rows of another count, and without rows that repeat a step."""
    keep = ~stray(log.step.astype(np.int64))
    keep[1:] &= np.diff(log.step) != 0
    return LoggedSteps(log.row[keep], log.step[keep], log.clock_s[keep], log.duration_s[keep])


def _again(log: LoggedSteps) -> Mask:
    """The intervals that a restart costs: those up to it, and those of repeated steps, shape (n - 1,)."""
    again = np.zeros(len(log.step) - 1, bool)
    for at in np.flatnonzero(np.diff(log.step) < 0)[:1000]:
        first = int(np.searchsorted(np.maximum.accumulate(log.step[: at + 1]), log.step[at + 1]))
        again[max(first - 1, 0) : at + 1] = True
    return again


def _parts_of(log: LoggedSteps, events: Sequence[LogEvent]) -> "np.ndarray[tuple[int], np.dtype[np.str_]]":
    """The part that an event before each row names, "" if none does, shape (n - 1,)."""
    told = np.full(len(log.row) - 1, "", dtype="<U12")
    for one in events:
        part = _PART_OF.get(one.kind)
        at = int(np.searchsorted(log.row, one.row)) - 1
        if part is not None and 0 <= at < len(told) and not told[at]:
            told[at] = part
    return told
