"""Mean step time of one side, and its error, from the steps that were seen."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from diagnose.arrays import Floats, Mask
from diagnose.formulas.statistics import draws_of, outliers, t_quantile
from diagnose.judge.slow_steps import DEVIATIONS, SLOW_FROM

STALL_FROM = 3.0  # times the median, if many steps are slow
RARE = 0.01  # of the steps
LEAST_KEPT = 3
START = 1.5  # times the median: a log begins with its first step below that
MOST_STEPS = 1000
STRETCHES = 5  # of a run, which show how its speed changes
_LEAST_IN_STRETCH = 2
_RESAMPLES = 2000
_BEYOND = 0.01  # of equal speed-ups lie outside the interval


@dataclass(frozen=True)
class MeanStep:
    """The mean step.

    Attributes:
        mean_ns: of the steps that are kept.
        error: standard error of it, a share of it; None if the steps do not show it.
        freedom: degrees of freedom of the error.
        kept: whether each step is kept, shape (steps,); the others are slow and rare.
        noise_share: standard deviation of a step, a share of the mean; None for one step.
        drift_share: how far stretches of the run lie apart beyond what the noise of their steps explains, a share of
            the mean; 0 if there are too few steps to measure it.
    """

    mean_ns: float
    error: float | None
    freedom: float
    kept: Mask
    noise_share: float | None
    drift_share: float = 0.0

    @property
    def lasts_ns(self) -> float:
        """Duration of all kept steps together, in nanoseconds."""
        return self.steps * self.mean_ns

    @property
    def steps(self) -> int:
        """Number of the kept steps."""
        return int(self.kept.sum())


def step_time(each_ns: Sequence[float]) -> MeanStep:
    """The mean of the steps without those that are slow and rare.

    An event seen once in a window, or once in a hundred steps, says little about its frequency: a pause, a checkpoint,
    a stall. Slow steps that come more often are part of the job and count. The error is that of a bootstrap over blocks
    of neighbours, since steps follow each other alike.
    """
    ns = np.asarray(each_ns, np.float64)
    kept = ~_rarely_slow(ns)
    kept = kept if ns[kept].any() else np.ones(len(ns), bool)
    used = ns[kept]
    mean = float(used.mean())
    if len(used) < 2:
        return MeanStep(mean, None, 0.0, kept, None)
    block = block_length(used)
    blocks = len(used) / block
    deviation = _bootstrap_deviation(used, block) * np.sqrt(blocks / (blocks - 1))
    return MeanStep(mean, float(deviation) / mean, blocks - 1, kept, float(used.std(ddof=1)) / mean, _drift(used))


def _drift(ns: Floats) -> float:
    """Standard deviation of the means of the stretches, as a share, beyond that of independent steps."""
    each = len(ns) // STRETCHES
    if each < _LEAST_IN_STRETCH:
        return 0.0
    stretches = ns[: each * STRETCHES].reshape(STRETCHES, each)
    by_steps = stretches.var(axis=1, ddof=1).mean() / each
    beyond = stretches.mean(axis=1).var(ddof=1) - by_steps
    return float(np.sqrt(max(beyond, 0.0)) / ns.mean())


def of_summary(mean_ns: float, noise_share: float | None, steps: int) -> MeanStep:
    """The step time if only the mean, the deviation and the number of the steps are known."""
    known = noise_share is not None and steps > 1
    error = float(noise_share / np.sqrt(steps)) if known and noise_share is not None else None
    return MeanStep(mean_ns, error, max(steps - 1.0, 0.0), np.ones(steps, bool), noise_share if known else None)


def _rarely_slow(ns: Floats) -> Mask:
    """Mask of the steps that took much longer than all others, if they are rare: one, or one in a hundred."""
    none = np.zeros(len(ns), bool)
    if len(ns) <= LEAST_KEPT:
        return none
    for slow in (outliers(ns, SLOW_FROM, DEVIATIONS), np.asarray(ns > STALL_FROM * np.median(ns), bool)):
        if slow.sum() <= max(1, RARE * len(ns)):
            return slow
    return none


def block_length(ns: Floats) -> int:
    """Length of the blocks for steps that follow each other alike: (sqrt(6) r / (1 - r^2))^(2/3) n^(1/3).

    That is the best one for a first-order autoregression with correlation r (Carlstein 1986); a quarter of the steps
    at most, so that four blocks are left to vary.
    """
    count, centred = len(ns), ns - ns.mean()
    power = float(np.einsum("i,i->", centred, centred))
    if count < 8 or power <= 0:
        return 1
    r = min(max(float(np.einsum("i,i->", centred[1:], centred[:-1])) / power, 0.0), 0.95)
    best = (6**0.5 * r / (1 - r * r)) ** (2 / 3) * count ** (1 / 3)
    return int(min(max(np.ceil(best), 1), count // 4))


def _bootstrap_deviation(ns: Floats, block: int) -> float:
    """Standard deviation of the mean over resamples of circular blocks; the same for the same steps."""
    count = len(ns)
    sums = np.cumsum(np.concatenate(([0.0], ns, ns[: block - 1])))
    of_block = (sums[block:] - sums[:-block])[:count] / block
    drawn = draws_of(count, _RESAMPLES, max(round(count / block), 1))
    return float(of_block[drawn].mean(axis=1).std())


def half_width(before: MeanStep, after: MeanStep, floor_share: float, drifts: bool = False) -> float | None:
    """Half of the 99 % interval of the logarithm of the speed-up; None if neither side has a known noise.

    Noise of the steps (Welch's t) and the distance beyond which 1 % of equal runs lie add up as squares. A side of one
    step is taken to be as noisy as the other. If the machine `drifts`, more steps do not average that out: two runs lie
    as far apart as two stretches of one.
    """
    known = [side for side in (before, after) if side.error is not None and side.noise_share is not None]
    if not known:
        return None
    errors = [_error_of(side, known[0]) for side in (before, after)]
    freedom = _welch(errors, [side.freedom or known[0].freedom for side in (before, after)])
    if drifts:
        errors += [before.drift_share, after.drift_share]
    return float(np.hypot(t_quantile(_BEYOND / 2, max(freedom, 1.0)) * np.linalg.norm(errors), np.log1p(floor_share)))


def _error_of(side: MeanStep, other: MeanStep) -> float:
    return side.error if side.error is not None else (other.noise_share or 0.0) / max(side.steps, 1) ** 0.5


def _welch(errors: Sequence[float], freedoms: Sequence[float]) -> float:
    """Degrees of freedom of the difference (Welch and Satterthwaite)."""
    squares = sum(error**2 for error in errors)
    parts = sum(error**4 / max(freedom, 1.0) for error, freedom in zip(errors, freedoms, strict=True))
    return squares**2 / parts if parts > 0 else 1e9


def without_start(seconds: Floats) -> Floats:
    """The steps of a log from its first usual one on: earlier ones compile, fill caches and wait for others."""
    usual = np.flatnonzero(seconds <= START * np.median(seconds))
    return seconds[usual[0] :] if len(usual) else seconds


def means_of_neighbours(ns: Floats) -> Floats:
    """At most `MOST_STEPS` means of groups of neighbours; the last ones that fill no group are left out."""
    together = -(-len(ns) // MOST_STEPS)
    whole = len(ns) // together * together
    return np.asarray(ns[:whole].reshape(-1, together).mean(axis=1))
