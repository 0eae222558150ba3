"""Statistics: robust spread, quantiles and tails of distributions, ranks, changes of level, and draws anew.

Each is held against scipy by the tests; the package itself needs numpy alone.
"""

from collections.abc import Sequence
from math import comb, erfc, exp, lgamma, log, pi, sqrt

import numpy as np

from diagnose.arrays import Array, Floats, Ints, Mask

NORMAL_SPREAD = 1.4826  # standard deviation of a normal distribution over its median distance from the middle
DRAWS = 400
MOST = 0.9  # of the draws lie between the ends of a range
ENDS = ((1 - MOST) / 2, (1 + MOST) / 2)
CAUTION = 2.0  # standard errors of a correlation
CAUTION_OF_MEANS = 1.0
_SHORT = 5
_MEANS_FROM = 40
_BATCHES_FROM = 64
_LEAST_VARIANCE = 0.02  # of ranks: constant levels leave no residuals
_NODES = 40  # of the quadrature
_LINES = 4  # fits of a line, each with the far values of the one before drawn in
_STEPS = 60  # of Newton's method: the angle of a distant quantile takes a dozen
_DIXON_95 = (0.642, 0.560, 0.507, 0.468, 0.437, 0.412, 0.392, 0.376, 0.361, 0.349, 0.338, 0.329, 0.320, 0.313, 0.306,
             0.300)  # fmt: skip
DIXON_FROM = 5
"""The fewest observations that the table of Dixon's ratio has."""


def median_distances(columns: Array) -> Floats:
    """The median distance of each column from its median, shape (columns,)."""
    return np.asarray(np.median(np.abs(columns - np.median(columns, axis=0)), axis=0), np.float64)


def robust_deviation(values: Array, middle: float | None = None) -> float:
    """A standard deviation that few outliers do not move: that of a normal distribution with this median distance.

    The distances are from `middle`, or from the median if none is given.
    """
    return NORMAL_SPREAD * float(np.median(np.abs(values - (np.median(values) if middle is None else middle))))


def outliers(values: Array, least_factor: float, deviations: float, among: Array | None = None) -> Mask:
    """The values above `least_factor` times the median and above it by that many robust deviations, as a mask.

    Median and deviation are those of `among`, of the values themselves without it.
    """
    of = values if among is None else among
    middle = np.median(of)
    return np.asarray(values > max(least_factor * middle, middle + deviations * robust_deviation(of)), bool)


def t_quantile(beyond: float, freedom: float) -> float:
    """The value that Student's t exceeds with the probability `beyond`, at most a half; `freedom` is at least 1.

    The probability of |t| at most sqrt(freedom) tan(a) is the integral of cos^(freedom - 1) from 0 to a, times a
    constant. It bends downwards, so that Newton's method climbs from 0 to the angle without passing it.
    """
    node, weight = np.polynomial.legendre.leggauss(_NODES)
    scale = 2 / sqrt(pi) * exp(lgamma((freedom + 1) / 2) - lgamma(freedom / 2))
    angle = 0.0
    for _ in range(_STEPS):
        within = scale * angle / 2 * float(weight @ np.cos(angle / 2 * (1 + node)) ** (freedom - 1))
        step = (1 - 2 * beyond - within) / (scale * float(np.cos(angle)) ** (freedom - 1))
        angle += step
        if abs(step) <= 1e-15 * angle:
            break
    return sqrt(freedom) * float(np.tan(angle))


def dixon_critical(observations: int) -> float:
    """Dixon's r10 (the gap to the next one over the range of all) of an outlier, one-sided at 5 %, of 5 or more.

    Of more than 20 it is that of 20.
    """
    return _DIXON_95[min(observations - DIXON_FROM, len(_DIXON_95) - 1)]


def binomial_tail(times: int, of: int, chance: float) -> float:
    """Probability that `times` or more `of` independent events happen, each with the same chance."""
    if times <= 0 or chance >= 1:
        return 1.0
    if times > of or chance <= 0:
        return 0.0
    first = lgamma(of + 1) - lgamma(times + 1) - lgamma(of - times + 1) + times * log(chance)
    first += (of - times) * log(1 - chance)
    happen = np.arange(times, of)
    further = np.cumsum(np.log((of - happen) / (happen + 1) * chance / (1 - chance)))
    return min(exp(first) * (1 + float(np.exp(further).sum())), 1.0)


def share_error(times: int, of: int) -> float:
    """The standard error of a share that was seen `times` out of `of`, with two successes and two failures added
    (Agresti and Coull 1998), so that it is above 0 even if all or none were seen.
    """
    share = (times + 2) / (of + 4)
    return sqrt(share * (1 - share) / (of + 4))


def poisson_binomial_tail(times: int, chances: Sequence[float]) -> float:
    """Probability that `times` or more of independent events happen, each with its own chance.

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


def hypergeometric_tail(times: int, drawn: int, marked: int, whole: int) -> float:
    """Probability that `times` or more of `drawn` are marked, drawn blindly of `whole` of which `marked` are.

    Fisher's exact test, in whole numbers.
    """
    most = min(drawn, marked)
    ways = sum(comb(marked, each) * comb(whole - marked, drawn - each) for each in range(times, most + 1))
    return ways / comb(whole, drawn)


def bridge_tail(height: float) -> float:
    """Probability that a Brownian bridge rises above `height` anywhere, up or down (Kolmogorov's distribution)."""
    if height < 0.5:
        return 1.0
    k = np.arange(1, 20)
    return float(min(max(2 * np.sum((-1.0) ** (k + 1) * np.exp(-2 * (k * height) ** 2)), 0.0), 1.0))


def mean_ranks(values: Floats) -> Floats:
    """Ranks from 1 on, of which equal values share the mean. They bear any outlier and need no distribution."""
    _, which, times = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(times)
    return (last - (times - 1) / 2)[which]


def _centred_ranks(values: Floats) -> Floats:
    return mean_ranks(values) - (len(values) + 1) / 2


def independent_shift(values: Floats, splits: Sequence[int] | None = None) -> tuple[int, float]:
    """Where independent values most likely move to another level, and how likely chance does as much.

    Pettitt's test (A Non-parametric Approach to the Change-point Problem, 1979): the index of the first value of the
    new level, and the p-value, which is his approximation. `correlated_shift` is for values that follow each other.

    Args:
        values: shape (n,).
        splits: indices that a new level may begin at, in order; every one if they are not given.
    """
    count = len(values)
    at = np.array(range(1, count) if splits is None else splits, int)
    if not len(at):
        return count, 1.0
    moved = 2 * np.abs(np.cumsum(_centred_ranks(values))[at - 1])
    most = int(np.argmax(moved))
    return int(at[most]), _pettitt_p(float(moved[most]), count)


def least_shift_p(count: int, splits: Sequence[int] | None = None) -> float:
    """The p-value of the clearest shift that so many independent values can have: all before it below all others."""
    at = range(1, count) if splits is None else splits
    return _pettitt_p(max((split * (count - split) for split in at), default=0), count)


def _pettitt_p(most: float, count: int) -> float:
    return min(1.0, 2 * float(np.exp(-6 * most**2 / max(count**3 + count**2, 1))))


def correlated_shift(values: Floats, margin: int) -> tuple[int, float]:
    """Where values that follow each other most likely move to another level, and the p-value of "one level throughout".

    The sums of centred ranks are a bridge under that hypothesis; its height is measured in long-run deviations of the
    residuals from both levels, so that neither the change nor the correlation of neighbours counts as evidence.

    Args:
        values: shape (n,).
        margin: values on each side of a change, at least. Of fewer than two margins the answer is (0, 1.0).
    """
    n = len(values)
    if n < 2 * margin:
        return 0, 1.0
    centred = _centred_ranks(values)
    sums = np.cumsum(centred)[margin - 1 : n - margin]
    at = int(np.argmax(np.abs(sums))) + margin
    before, after = centred[:at].mean(), centred[at:].mean()
    residuals = centred - np.concatenate((np.full(at, before), np.full(n - at, after)))
    variance = max(long_run_variance(residuals), _LEAST_VARIANCE)
    return at, bridge_tail(float(np.abs(sums).max()) / np.sqrt(n * variance))


def trend_p(values: Floats) -> float:
    """The p-value of "the straight line through values that follow each other is level".

    The slope's error is that of least squares with the long-run variance of what the line leaves (Newey and West, 1987,
    with another estimate of that variance): neither the trend nor the correlation of neighbours counts as evidence.
    Values further than three deviations from the line are drawn in.

    Args:
        values: shape (n,), three or more.
    """
    n = len(values)
    at = np.arange(n) - (n - 1) / 2
    drawn_in = values
    for _ in range(_LINES):
        slope, middle = float(at @ drawn_in) / float(at @ at), float(drawn_in.mean())
        line = middle + slope * at
        reach = 3 * max(robust_deviation(values - line), 1e-9)
        drawn_in = np.clip(values, line - reach, line + reach)
    error = sqrt(max(long_run_variance(drawn_in - line), 1e-18) / float(at @ at))
    return erfc(abs(slope) / error / sqrt(2))


def long_run_variance(residuals: Floats) -> float:
    """Variance of a mean of correlated values, times their number: the largest of several estimates.

    Two take the values, and their means over 5, as autoregressive of order one; means show a slow wander that fast
    noise hides. The others are the variances of the means of batches, of sqrt(n) and of 2 sqrt(n) values.
    """
    n = len(residuals)
    variance = _autoregressive(residuals, CAUTION)
    if n >= _MEANS_FROM:
        variance = max(variance, _SHORT * _autoregressive(_means(residuals, _SHORT), CAUTION_OF_MEANS))
    if n >= _BATCHES_FROM:
        for length in (int(np.sqrt(n)), min(int(2 * np.sqrt(n)), n // 8)):
            variance = max(variance, length * float(_means(residuals, length).var(ddof=1)))
    return variance


def _autoregressive(values: Floats, caution: float) -> float:
    """var (1 + r) / (1 - r), with r corrected for its bias in short stretches and raised by `caution` errors."""
    n = len(values)
    variance = float(values @ values) / max(n - 2, 1)
    if variance <= 0:
        return 0.0
    lagged = float(values[1:] @ values[:-1]) / (variance * n)
    lagged += (1 + 3 * lagged) * 2 / n
    lagged = min(max(lagged + caution * np.sqrt(max(1 - lagged**2, 0.0) / n), 0.0), 0.98)
    return variance * (1 + lagged) / (1 - lagged)


def _means(values: Floats, length: int) -> Floats:
    return np.asarray(values[: len(values) // length * length].reshape(-1, length).mean(axis=1), np.float64)


def generator() -> np.random.Generator:
    """Random numbers for draws anew (the bootstrap; Efron, 1979), the same ones in every process."""
    return np.random.default_rng(0)


def draws_of(count: int, draws: int = DRAWS, size: int | None = None) -> Ints:
    """The items that each draw takes, as many as there are if no size is given: shape (draws, size)."""
    return generator().integers(0, count, (draws, count if size is None else size))
