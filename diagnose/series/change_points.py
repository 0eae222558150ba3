"""The changes of one track: levels and drifts, what comes periodically and the warm-up taken out first."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from diagnose.arrays import Floats
from diagnose.formulas.statistics import robust_deviation, trend_p
from diagnose.series.periodic import Beat, beats
from diagnose.series.segments import MARGIN, MOST_BLOCKS, Split, best_place, difference, medians, splits
from diagnose.series.stalls import Burst, bursts
from diagnose.series.tracks import Track

ALPHA = 0.01  # chance of any change in a job whose step times only fluctuate
LEAST_CHANGE = float(np.log(1.045))  # 5 %, rounded
_WARM = float(np.log(1.1))
_MOST_WARMUP = 50
Scale = Callable[[Floats], Floats]
_SCALES: tuple[tuple[Scale, Scale], ...] = ((np.positive, np.exp), (np.exp, np.positive))  # of logarithms; and back
_OF_ALPHA = 0.1  # what the test for one drift throughout may add to the chance of a false change


@dataclass(frozen=True)
class Shift:
    """A track's level before and after; samples [begin, at) and [at, end). A drift goes on from `at` to `end`."""

    kind: str
    begin: int
    at: int
    end: int
    low: int
    high: int
    before_s: float
    after_s: float
    p_value: float


@dataclass(frozen=True)
class ChangePoints:
    """A track without its warm-up and its periodic samples, and what was found in it. Bursts are that track's."""

    track: Track
    shifts: tuple[Shift, ...]
    beats: tuple[Beat, ...]
    warmup: int
    bursts: tuple[Burst, ...] = ()


def search(track: Track, alpha: float = ALPHA, most_blocks: int = MOST_BLOCKS) -> ChangePoints:
    """The changes of level and the drifts of a track; none when it has fewer than 20 samples."""
    warmup = _warmup(np.log(track.seconds))
    settled = track.part(np.arange(warmup, len(track)))
    beats_found = beats(settled)
    periodic = np.concatenate([beat.rows for beat in beats_found]) if beats_found else np.zeros(0, np.int64)
    steady = settled.part(np.setdiff1d(np.arange(len(settled)), periodic))
    values = np.log(steady.seconds)
    shifts = _with_drifts(values, _shifts(values, splits(values, alpha, LEAST_CHANGE, most_blocks)))
    shifts = shifts or _throughout(values, alpha, most_blocks)
    edges = sorted({shift.at for shift in shifts} - {0})
    return ChangePoints(steady, shifts, beats_found, warmup, bursts(steady, edges))


def _warmup(values: Floats) -> int:
    """Samples at the start that are slower than what follows: compilation, allocation, an empty page cache."""
    if len(values) < 3 * MARGIN:
        return 0
    most = min(_MOST_WARMUP, len(values) // 10)
    after = values[most : most + 100]
    deviation = robust_deviation(after)
    slow = values[:most] > np.median(after) + max(_WARM, 3 * deviation)
    return int(np.argmin(slow)) if not slow.all() else most


def _shifts(values: Floats, splits_found: tuple[Split, ...]) -> list[Shift]:
    edges = [0, *(split.at for split in splits_found), len(values)]
    level = [float(np.exp(np.median(values[a:b]))) for a, b in pairwise(edges)]
    return [
        Shift("level", edges[i], s.at, edges[i + 2], s.low, s.high, level[i], level[i + 1], s.p_value)
        for i, s in enumerate(splits_found)
    ]


def _with_drifts(values: Floats, shifts: list[Shift]) -> tuple[Shift, ...]:
    """Shifts in one direction that a straight line fits better become one drift."""
    merged: list[Shift] = []
    while shifts:
        run = 1
        while run < len(shifts) and (shifts[run].after_s > shifts[run].before_s) == (
            shifts[0].after_s > shifts[0].before_s
        ):
            run += 1
        drift = _drift(values, shifts[:run])
        merged += [drift] if drift else shifts[:run]
        shifts = shifts[run:]
    return tuple(merged)


def _throughout(values: Floats, alpha: float, most_blocks: int) -> tuple[Shift, ...]:
    """One drift over all values, which have no level that a test for levels could compare with another.

    Times may rise by as much in each step, or by the same factor: the line is the surer one of both.
    """
    if len(values) < 2 * MARGIN:
        return ()
    at, blocks = best_place(values, len(values) // 2), medians(values, -(-len(values) // most_blocks))
    p_values = [trend_p(scale(blocks)) for scale, _ in _SCALES]
    if min(p_values) >= alpha * _OF_ALPHA or abs(difference(values, len(values) // 2)) < LEAST_CHANGE:
        return ()
    scale, back = _SCALES[int(np.argmin(p_values))]
    drift = _drift(scale(values), [Shift("level", 0, at, len(values), at, at, 0.0, 0.0, min(p_values))], back)
    return (drift,) if drift is not None and drift.before_s > 0 else ()


def _drift(values: Floats, shifts: list[Shift], back: Scale = np.exp) -> Shift | None:
    """A straight line instead of the shifts, if Schwarz's criterion (BIC, 1978) prefers it; else None.

    The criterion is the logarithm of the misfit plus, for each free number of the model, as much as chance would gain
    by it: two for a line; a level for each stretch and a place for each shift. `back` gives the seconds of a value.
    """
    begin, end = shifts[0].begin, shifts[-1].end
    count = min(end - begin, 200)
    edges = np.linspace(begin, end, count + 1).astype(np.int64)
    points = np.array([np.median(values[a:b]) for a, b in pairwise(edges)])
    where = (edges[:-1] + edges[1:]) / 2
    levels = [begin, *(s.at for s in shifts), end]
    steps = sum(_squared_deviations(points[(where >= a) & (where < b)]) for a, b in pairwise(levels))
    slope, start = np.polyfit(where, points, 1)
    misfit = float(np.sum((points - start - slope * where) ** 2))
    per_parameter = np.log(count) / count
    as_line = np.log(max(misfit, 1e-12)) + 2 * per_parameter
    as_steps = np.log(max(steps, 1e-12)) + (2 * len(shifts) + 1) * per_parameter
    if as_line >= as_steps:
        return None
    first, last = (float(back(start + slope * at)) for at in (begin, end))
    return Shift("drift", begin, begin, end, begin, begin, first, last, min(s.p_value for s in shifts))


def _squared_deviations(values: Floats) -> float:
    return float(np.sum((values - values.mean()) ** 2)) if len(values) else 0.0
