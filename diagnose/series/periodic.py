"""Single slow samples, and which of them come every N steps.

The likely periods are the commonest distances of neighbouring slow samples. A period is believed when three quarters of
the slow samples that it calls for are there, and when so many hits of its phase are too unlikely to fall there by
chance. The two hits that set period and phase prove nothing and are not counted, nor is a step that has no sample: the
slow one that an armed run records is missing in its times.

On a busy machine samples that are a little slow lie between those that are far slower and hide their distances. So the
samples are looked through at several least sizes, each twice the one before, and the chance allowed is shared by them.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from diagnose.arrays import Floats, Ints
from diagnose.formulas.statistics import binomial_tail, robust_deviation
from diagnose.series.tracks import Track

LEAST_SPIKE = np.log(1.2)
_STRETCH = 50  # samples that share a median
_HITS = 4
_SHORTEST = 3
_MOST_THERE = 0.75  # of the expected slow samples are there
_BY_CHANCE = 1e-4
_MOST_PERIODS = 3
_MOST_SPIKES = 5000


@dataclass(frozen=True)
class Beat:
    """Slow samples every `every` steps; `rows` are theirs, `extra_s` what each takes beyond its neighbours.

    `samples` are the slow samples themselves.
    """

    every: int
    first: int
    rows: Ints
    extra_s: Floats
    samples: Track


def excess(values: Floats) -> Floats:
    """Each value less the median of the stretch it lies in."""
    count = max(len(values) // _STRETCH, 1)
    edges = np.linspace(0, len(values), count + 1).astype(np.int64)
    middle = np.array([np.median(values[a:b]) for a, b in pairwise(edges)])
    return values - np.repeat(middle, np.diff(edges))


def spikes(values: Floats) -> Ints:
    """Rows that are far above their neighbours: a fifth of the step, and 4 deviations."""
    above = excess(values)
    deviation = robust_deviation(above, middle=0.0)
    return np.flatnonzero(above > max(LEAST_SPIKE, 4 * deviation))


def beats(track: Track) -> tuple[Beat, ...]:
    """The periodic ones among the slow samples, the most frequent first."""
    above = excess(np.log(track.seconds))
    rows = spikes(np.log(track.seconds))[:_MOST_SPIKES]
    kept: list[Beat] = []
    while len(rows) >= _HITS and len(kept) < _MOST_PERIODS:
        of_size = _by_least_size(above, rows)
        found = [hits for each in of_size if (hits := _most_regular(track, each, _BY_CHANCE / len(of_size)))]
        if not found:
            break
        every, chosen = max(found, key=lambda hits: len(hits[1]))
        extra = (1 - np.exp(-above[chosen])) * track.seconds[chosen] * track.steps_each
        kept.append(Beat(every, int(track.step[chosen[0]]), chosen, extra, track.part(chosen)))
        rows = np.setdiff1d(rows, chosen)
    return tuple(kept)


def _by_least_size(above: Floats, rows: Ints) -> list[Ints]:
    """The slow samples, the half as slow ones left out, and so on while enough for a period remain."""
    sizes, least = [rows], LEAST_SPIKE
    while len(larger := rows[above[rows] > (least := 2 * least)]) >= _HITS:
        if len(larger) < len(sizes[-1]):
            sizes.append(larger)
    return sizes


def _most_regular(track: Track, rows: Ints, chance: float) -> tuple[int, Ints] | None:
    """The period with the most hits: where each step has a sample exactly at its distance, too, since of short periods
    a step to either side is most of them.
    """
    usual = max(1, round(track.covers))
    tolerances = (usual, 0) if track.covers == 1 else (usual,)
    found = [_regular(track, rows, chance / len(tolerances), tolerance) for tolerance in tolerances]
    return max((each for each in found if each is not None), key=lambda hits: len(hits[1]), default=None)


def _regular(track: Track, rows: Ints, chance: float, tolerance: int) -> tuple[int, Ints] | None:
    steps = track.step[rows]
    rate = min((2 * tolerance + 1) / track.covers * len(rows) / max(len(track), 1), 1.0)
    apart, count = np.unique(np.diff(steps), return_counts=True)
    best: tuple[int, Ints] | None = None
    for every in apart[np.argsort(-count, kind="stable")][:5]:
        if every < max(4 * tolerance, _SHORTEST):
            continue
        hits = _in_phase(steps, int(every), tolerance)
        called = _timed(track, int(steps[hits[0]]), int(steps[hits[-1]]), int(every), tolerance)
        there = len(np.unique((steps[hits] - steps[hits[0]] + every // 2) // every))
        by_chance = binomial_tail(min(there, called) - 2, called - 2, rate)
        is_regular = there >= max(_MOST_THERE * called, _HITS) and by_chance < chance
        if is_regular and (best is None or len(hits) > len(best[1])):
            best = int(every), rows[hits]
    return best


def _timed(track: Track, first: int, last: int, every: int, tolerance: int) -> int:
    """Number of the steps due by the period that have a sample: recorded steps have no time."""
    off = track.step[(track.step >= first - tolerance) & (track.step <= last + tolerance)] - first + tolerance
    return len(np.unique(off[off % every <= 2 * tolerance] // every))


def _in_phase(steps: Ints, every: int, tolerance: int) -> Ints:
    """Places of the steps that the commonest remainder of the division by the period calls for."""
    phases, count = np.unique(steps % every, return_counts=True)
    off = (steps - phases[np.argmax(count)] + every // 2) % every - every // 2
    return np.flatnonzero(np.abs(off) <= tolerance)
