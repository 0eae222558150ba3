"""Single slow samples, and which of them come every N steps.

The likely periods are the commonest distances of neighbouring slow samples. A period is believed when three quarters of
the slow samples that it calls for are there, and when so many hits of its phase are too unlikely to fall there by
chance. The two hits that set period and phase prove nothing and are not counted.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from diagnose.arrays import Floats, Ints
from diagnose.series.tracks import Track

LEAST_SPIKE = np.log(1.2)
_STRETCH = 50  # samples that share a median
_HITS = 4
_REGULAR = 0.75  # of the expected slow samples are there
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
    deviation = 1.4826 * float(np.median(np.abs(above)))
    return np.flatnonzero(above > max(LEAST_SPIKE, 4 * deviation))


def beats(track: Track) -> tuple[Beat, ...]:
    """The periodic ones among the slow samples, the most frequent first."""
    rows = spikes(np.log(track.seconds))[:_MOST_SPIKES]
    kept: list[Beat] = []
    while len(rows) >= _HITS and len(kept) < _MOST_PERIODS:
        hits = _most_regular(track, rows)
        if hits is None:
            break
        every, chosen = hits
        extra = (1 - np.exp(-excess(np.log(track.seconds))[chosen])) * track.seconds[chosen] * track.steps_each
        kept.append(Beat(every, int(track.step[chosen[0]]), chosen, extra, track.part(chosen)))
        rows = np.setdiff1d(rows, chosen)
    return tuple(kept)


def _most_regular(track: Track, rows: Ints) -> tuple[int, Ints] | None:
    steps = track.step[rows]
    tolerance = max(1, round(track.covers))
    rate = min((2 * tolerance + 1) / track.covers * len(rows) / max(len(track), 1), 1.0)
    apart, count = np.unique(np.diff(steps), return_counts=True)
    best: tuple[int, Ints] | None = None
    for every in apart[np.argsort(-count, kind="stable")][:5]:
        if every < 4 * tolerance:
            continue
        hits = _in_phase(steps, int(every), tolerance)
        expected = (steps[hits[-1]] - steps[hits[0]]) / every + 1
        sure = rate ** (len(hits) - 2) < _BY_CHANCE
        if (
            len(hits) >= _HITS
            and len(hits) >= _REGULAR * expected
            and sure
            and (best is None or len(hits) > len(best[1]))
        ):
            best = int(every), rows[hits]
    return best


def _in_phase(steps: Ints, every: int, tolerance: int) -> Ints:
    """Places of the steps that the commonest remainder of the division by the period calls for."""
    phases, count = np.unique(steps % every, return_counts=True)
    off = (steps - phases[np.argmax(count)] + every // 2) % every - every // 2
    return np.flatnonzero(np.abs(off) <= tolerance)
