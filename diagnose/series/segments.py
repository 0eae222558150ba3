"""Find where a series of values moves to another level: splits of seeded intervals, tested on ranks, then tested again.

The intervals are those of seeded binary segmentation (Kovács, Bühlmann, Li and Munk, Biometrika 2023): lengths fall by
sqrt(2), each length is laid over the series with half overlap. So every change lies alone, and well inside, in one of
them, where a test for one change finds it; the chance of a false one is shared out over all intervals (Bonferroni). All
of it is deterministic.
"""

from dataclasses import dataclass

import numpy as np

from diagnose.arrays import Floats
from diagnose.formulas.statistics import correlated_shift, robust_deviation

MARGIN = 10  # samples on each side of a change
MOST_BLOCKS = 2000
_DECAY = 2**-0.5


@dataclass(frozen=True)
class Split:
    """A level begins at the sample `at`; it could as well begin at any from `low` to `high`."""

    at: int
    low: int
    high: int
    p_value: float


def splits(values: Floats, alpha: float, least: float, most_blocks: int = MOST_BLOCKS) -> tuple[Split, ...]:
    """The changes of level, in order.

    Args:
        values: logarithms of step times, shape (n,).
        alpha: probability of finding any change if there is none.
        least: the least difference of the medians on both sides that counts.
        most_blocks: more values than this are first reduced to medians of blocks.
    """
    size = -(-len(values) // most_blocks)
    blocks = medians(values, size)
    kept = _confirmed(blocks, _chosen(blocks, alpha, least), alpha, least)
    edges = [0, *(at * size for at, _ in kept), len(values)]
    return tuple(_placed(values, edges[i], edges[i + 1], edges[i + 2], p, size) for i, (_, p) in enumerate(kept))


def difference(values: Floats, at: int) -> float:
    """Median after `at` less median before."""
    return float(np.median(values[at:]) - np.median(values[:at]))


def medians(values: Floats, size: int) -> Floats:
    """The values, or the medians of blocks of `size`."""
    if size <= 1:
        return values
    whole = len(values) // size * size
    return np.asarray(np.median(values[:whole].reshape(-1, size), axis=1), np.float64)


def _intervals(n: int) -> list[tuple[int, int]]:
    intervals, length = [(0, n)], n * _DECAY
    while length >= 2 * MARGIN:
        count = 2 * int(np.ceil(n / length)) - 1
        shift = (n - length) / max(count - 1, 1)
        intervals += [(int(i * shift), min(int(np.ceil(i * shift + length)), n)) for i in range(count)]
        length *= _DECAY
    return intervals


def _chosen(values: Floats, alpha: float, least: float) -> list[int]:
    """Splits of the intervals, the surest first; an interval that holds one already is passed over."""
    intervals = _intervals(len(values))
    tested = []
    for begin, end in intervals:
        at, p = correlated_shift(values[begin:end], MARGIN)
        if p < alpha / len(intervals) and abs(difference(values[begin:end], at)) >= least:
            tested.append((p, end - begin, begin, end, begin + at))
    chosen: list[int] = []
    for _, _, begin, end, at in sorted(tested):
        if all(not begin < other < end and abs(other - at) >= MARGIN for other in chosen):
            chosen.append(at)
    return sorted(chosen)


def _confirmed(values: Floats, chosen: list[int], alpha: float, least: float) -> list[tuple[int, float]]:
    """The splits that also divide the levels around them, each moved to its best place."""
    tests = len(_intervals(len(values)))
    while chosen:
        edges = [0, *chosen, len(values)]
        for i in range(1, len(edges) - 1):
            a, at, b = edges[i - 1 : i + 2]
            edges[i] = a + best_place(values[a:b], at - a)
        chosen = edges[1:-1]
        tested = []
        for a, at, b in zip(edges, chosen, edges[2:], strict=False):
            _, p = correlated_shift(values[a:b], min(MARGIN, at - a, b - at))
            tested.append((p if abs(difference(values[a:b], at - a)) >= least else 1.0, at))
        worst, at = max(tested)
        if worst < alpha / tests:
            return [(at, p) for p, at in tested]
        chosen = [other for other in chosen if other != at]
    return []


def _misfit(values: Floats) -> Floats:
    """Squared misfit of two levels, for each place k = 1 ... n-1 of the second; far values are drawn in.

    The misfit of one level is the sum of squares less the squared sum over the number, so running sums give all places.
    """
    middle = np.median(values)
    reach = 3 * max(robust_deviation(values), 1e-9)
    near = np.clip(values - middle, -reach, reach)  # far from zero the squares would leave nothing of small differences
    n, sums = len(near), np.cumsum(near)
    k = np.arange(1, n)
    before, after = sums[:-1], sums[-1] - sums[:-1]
    misfit = near @ near - before**2 / k - after**2 / (n - k)
    return np.maximum(np.asarray(misfit, np.float64), 0.0)  # clean levels may round to less than nothing


def best_place(values: Floats, at: int) -> int:
    """The place at which two levels fit best, or `at` if the values are too few."""
    margin = min(MARGIN, len(values) // 2)
    if len(values) < 2 * margin or margin < 1:
        return at
    return int(np.argmin(_misfit(values)[margin - 1 : len(values) - margin])) + margin


def _placed(values: Floats, begin: int, at: int, end: int, p: float, size: int) -> Split:
    """The split at single samples, with the places that fit nearly as well: a misfit of 8 residual variances more."""
    stretch = values[begin:end]
    low_edge, high_edge = (max(at - begin - 2 * size, 1), min(at - begin + 2 * size + 1, len(stretch) - 1))
    misfit = _misfit(stretch)
    if size > 1:
        at = begin + low_edge + int(np.argmin(misfit[low_edge - 1 : high_edge]))
    k = at - begin
    noise = misfit[k - 1] / max(len(stretch) - 2, 1)
    near = np.flatnonzero(misfit <= misfit[k - 1] + 8 * noise) + 1
    return Split(at, begin + int(min(near.min(), k)), begin + int(max(near.max(), k)), p)
