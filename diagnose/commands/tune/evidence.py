"""The gain of a setting, by all pairs of runs with and without it: one noisy run decides nothing."""

from collections.abc import Sequence

import numpy as np

from diagnose.commands.compare.answer import Comparison
from diagnose.commands.compare.comparing import compare
from diagnose.diagnosis import Diagnosis
from diagnose.diagnosis.terms import Estimate, Speedup
from diagnose.facts import spoken
from diagnose.judge.run_pair import FLOOR, FLOOR_ON_HOST

_PAIRS, _PAIRS_OF_A_GAIN = 3, 5  # at most
_WORTH = 1.05  # a smaller gain is not worth two more runs
_MOST_OF_NO_GAIN = 1.1  # at best: more may be a gain that the runs do not show
_MUCH_FINER = 0.8  # of the width: less is not worth longer runs
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


def hides_a_gain(speedup: Estimate) -> bool:
    """Whether a gain that is worth having may be hidden in the noise of the runs."""
    low, _, high = speedup
    return low <= 1 <= high and high > _MOST_OF_NO_GAIN


def not_shown(speedup: Estimate, of: Diagnosis, noise_share: float | None) -> str:
    """The gain that the runs can show, and the one that four times their steps without the profiler could.

    The noise of the steps halves with four times as many; the distance between repeats of a run stays.

    Args:
        speedup: measured, whose noise hides it.
        of: one of the runs.
        noise_share: how far repeats of a run lie apart; None for the usual distance.
    """
    width, floor = np.log(speedup[2] / speedup[1]), np.log1p(usually_apart(of, noise_share))
    at_best = np.hypot(np.sqrt(max(width**2 - floor**2, 0.0)) / 2, floor)
    seen = f"{speedup[1]:.2f}x is within the noise: these runs can show {spoken(np.expm1(width), 'share')} and more"
    more = 2 * len(of.steps.unprofiled_ns)  # `--control` counts those on one side of the window
    better = at_best < _MUCH_FINER * width and more
    return f"{seen}; --control {more} could show {spoken(np.expm1(at_best), 'share')}" if better else seen


def pairs_at_most(newest: Estimate) -> int:
    """Number of pairs of runs to make, by the newest of them: more if it shows a gain, too."""
    return _PAIRS_OF_A_GAIN if newest[1] > _WORTH else _PAIRS
