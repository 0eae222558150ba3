"""Probability of chance events: so many among independent ones, and such a shift within a sequence."""

from collections.abc import Sequence
from math import comb

import numpy as np

from diagnose.arrays import Floats

ALPHA = 0.01  # chance of one accusation, or of one trend, in a fleet in which nothing is wrong


def at_least(times: int, chances: Sequence[float]) -> float:
    """Chance that `times` or more of independent events happen, each with its own chance (Poisson-binomial).

    Computed exactly: the distribution of the number so far, in which `times` is never left again.
    """
    if times <= 0:
        return 1.0
    so_far = np.zeros(times + 1)
    so_far[0] = 1.0
    for chance in chances:
        moved = so_far[:-1] * chance
        so_far[:-1] -= moved
        so_far[1:] += moved
    return float(min(max(so_far[-1], 0.0), 1.0))


def drawn_at_least(times: int, drawn: int, marked: int, whole: int) -> float:
    """Chance that `times` or more of `drawn` are marked, drawn blindly of `whole` of which `marked` are.

    Fisher's exact test of a host's jobs against all others': the hypergeometric distribution, in whole numbers.
    """
    most = min(drawn, marked)
    ways = sum(comb(marked, each) * comb(whole - marked, drawn - each) for each in range(times, most + 1))
    return ways / comb(whole, drawn)


def shift_in(values: Floats, splits: Sequence[int] | None = None) -> tuple[int, float]:
    """The most likely change point of a sequence, and the probability that chance makes such a shift.

    Pettitt's test (A Non-parametric Approach to the Change-point Problem, 1979): the index of the first value of the
    new level, and the p-value, which is his approximation.

    Args:
        values: shape (n,).
        splits: indices that a new level may begin at, in order; every one by default.
    """
    count = len(values)
    at = np.array(range(1, count) if splits is None else splits, int)
    if not len(at):
        return count, 1.0
    moved = np.abs(2 * np.cumsum(_ranks(values))[at - 1] - at * (count + 1))
    most = int(np.argmax(moved))
    return int(at[most]), _p_value(float(moved[most]), count)


def least_p(count: int, splits: Sequence[int] | None = None) -> float:
    """The p-value of the clearest possible shift of so many values: all before it below all others."""
    at = range(1, count) if splits is None else splits
    return _p_value(max((split * (count - split) for split in at), default=0), count)


def _p_value(most: float, count: int) -> float:
    return min(1.0, 2 * float(np.exp(-6 * most**2 / max(count**3 + count**2, 1))))


def _ranks(values: Floats) -> Floats:
    """Ranks of the values, from 1 on; equal values share the mean of theirs."""
    _, which, times = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(times)
    return (last - (times - 1) / 2)[which]
