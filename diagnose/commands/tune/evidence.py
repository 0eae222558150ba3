"""The gain of a setting, by all pairs of runs with and without it: one noisy run decides nothing."""

from collections.abc import Sequence

import numpy as np

from diagnose.commands.compare.answer import Comparison
from diagnose.commands.compare.comparing import compare
from diagnose.commands.compare.noise import FLOOR, FLOOR_ON_HOST
from diagnose.diagnosis import Diagnosis
from diagnose.diagnosis.terms import Estimate, Speedup

_PAIRS, _PAIRS_OF_A_GAIN = 3, 5  # at most
_WORTH = 1.05  # a smaller gain is not worth two more runs
_QUANTILE = 2.576  # of the standard normal distribution, two-sided 99 %


def usually_apart(of: Diagnosis, noise_share: float | None) -> float:
    """Distance between repeats of a run: the stated one, else the usual one on such a device."""
    if noise_share is not None:
        return noise_share
    return FLOOR_ON_HOST if of.steps.device_time_ns is None else FLOOR


def held_against(before: Diagnosis, after: Diagnosis, noise_share: float | None) -> Comparison:
    """Compare one pair of runs with the usual noise.

    Drift of the machine between runs shows in pairs that contradict each other, and is not taken from each pair.
    """
    return compare(before, after, floor_share=usually_apart(before, noise_share))


def pooled(pairs: Sequence[Estimate]) -> Estimate:
    """One speed-up of several, each [low, mid, high] with a 99 % interval.

    Pairs are weighted by their noise, and contradicting pairs widen the interval: the random-effects mean of the
    logarithms (DerSimonian and Laird 1986).
    """
    if len(pairs) == 1:
        return pairs[0]
    low, mids, high = np.log(np.array(pairs)).T
    variances = np.maximum((high - low) / (2 * _QUANTILE), 1e-9) ** 2
    weights = 1 / variances
    spread = float(weights @ (mids - weights @ mids / weights.sum()) ** 2) - (len(pairs) - 1)
    between = max(0.0, spread / float(weights.sum() - weights @ weights / weights.sum()))
    weights = 1 / (variances + between)
    middle, half = float(weights @ mids / weights.sum()), _QUANTILE / float(weights.sum()) ** 0.5
    return float(np.exp(middle - half)), float(np.exp(middle)), float(np.exp(middle + half))


def is_unclear(speedup: Estimate, predicted: Speedup | None) -> bool:
    """Whether the noise hides a measured or predicted gain that another pair of runs may show."""
    low, mid, high = speedup
    promised = predicted is not None and _WORTH < predicted[0] <= high
    return low <= 1 <= high and (mid > _WORTH or promised)


def pairs_at_most(newest: Estimate) -> int:
    """Number of pairs of runs to make, by the newest of them: more if it shows a gain, too."""
    return _PAIRS_OF_A_GAIN if newest[1] > _WORTH else _PAIRS
