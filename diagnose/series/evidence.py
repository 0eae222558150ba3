"""Confidence that a stretch of values changes its level: rank tests that allow for the values' own correlation."""

import numpy as np

from diagnose.arrays import Floats

CAUTION = 2.0  # standard errors of a correlation
CAUTION_OF_MEANS = 1.0
_SHORT = 5
_MEANS_FROM = 40
_BATCHES_FROM = 64


def ranks_of(values: Floats) -> Floats:
    """Ranks from 0, ties shared, shape as `values`. They bear any outlier, and need no distribution of the values."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    first = np.cumsum(count) - count
    return (first + (count - 1) / 2)[place]


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


def tail_of_bridge(height: float) -> float:
    """Probability that a Brownian bridge rises above `height` anywhere, up or down (Kolmogorov's distribution)."""
    if height < 0.5:
        return 1.0
    k = np.arange(1, 20)
    return float(min(max(2 * np.sum((-1.0) ** (k + 1) * np.exp(-2 * (k * height) ** 2)), 0.0), 1.0))


def strongest_split(values: Floats, margin: int) -> tuple[float, int]:
    """The p-value of "one level throughout", and the best beginning of a second level.

    The sums of centred ranks are a bridge under that hypothesis; its height is measured in long-run deviations of the
    residuals from both levels, so that the change itself does not count as noise.
    """
    n = len(values)
    if n < 2 * margin:
        return 1.0, 0
    centred = ranks_of(values) - (n - 1) / 2
    sums = np.cumsum(centred)[margin - 1 : n - margin]
    at = int(np.argmax(np.abs(sums))) + margin
    before, after = centred[:at].mean(), centred[at:].mean()
    residuals = centred - np.concatenate((np.full(at, before), np.full(n - at, after)))
    spread = max(long_run_variance(residuals), 0.02)  # ranks of constant levels have no residuals
    return tail_of_bridge(float(np.abs(sums).max()) / np.sqrt(n * spread)), at
