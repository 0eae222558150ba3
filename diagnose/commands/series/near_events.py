"""Events that the log holds near a stall, as far as they may have to do with what it costs."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from diagnose.commands.series.answer import Near
from diagnose.series.log_events import KINDS
from diagnose.series.tracks import LoggedRun, Track

_SPECIFIC = 0.2  # of the samples: a kind of event before more usual ones explains no slow one
_MOST_NEAR = 3
_MATTERS = 0.1  # of what the stall costs: an event that took less by its own words did not make it

Told = Mapping[int, Sequence[Near]]


def intervals(run: LoggedRun, track: Track, slow: Collection[int]) -> Told:
    """Events that the log holds before each row, without kinds that occur before many rows that are not slow.

    Args:
        run: with its events.
        track: one of its tracks, whose rows are counted.
        slow: rows of the log that are slow: what comes before these alone explains them, however many they are.
    """
    if track.rows is None or not run.events:
        return {}
    ends = np.searchsorted(track.rows, [one.row for one in run.events])
    usual = {(one.kind, int(at)) for one, at in zip(run.events, ends, strict=True) if one.row not in slow}
    often = Counter(kind for kind, _ in usual)
    told: dict[int, list[Near]] = {}
    for one in run.events:
        if often[one.kind] <= max(_SPECIFIC * len(track), 1):
            told.setdefault(one.row, []).append(Near(kind=one.kind, text=one.text, seconds=one.seconds))
    return told


def near(rows: Sequence[int], count: int, cost_s: float, told: Told) -> tuple[Near, ...]:
    """Events between the row before a stall and its last one; the most informative kinds first, each once.

    Of a kind the one is named that states the longest time. Kinds whose times do not matter are left out.

    Args:
        rows: of the stall in the log, or of the `count` stalls of one period.
        count: the stalls that are put together.
        cost_s: what all of them cost.
        told: as `intervals` gives it.
    """
    if not rows or not told:
        return ()
    before = range(rows[0], rows[-1] + 1) if count == 1 else rows
    kinds: dict[str, Near] = {}
    for one in (each for row in before for each in told.get(row, ())):
        known = kinds.setdefault(one.kind, one)
        if (one.seconds or 0.0) > (known.seconds or 0.0):
            kinds[one.kind] = one
    kept = [one for one in kinds.values() if one.seconds is None or one.seconds >= _MATTERS * cost_s / count]
    return tuple(sorted(kept, key=lambda one: KINDS.index(one.kind))[:_MOST_NEAR])
