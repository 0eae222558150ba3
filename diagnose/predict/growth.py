"""Growth of the step time with the GPUs: extrapolate from a few measured sizes to others, as a range.

The model is t(N) = a·(w(N) + q·f_p(N)). w is the work of a GPU, 1 at the smallest run; f_p(N) = (N^p - 1)/p (Box and
Cox 1964) is 0 for a GPU alone. It covers how the time of a collective grows with its ranks: p = -1 is 1 - 1/N, a ring
whose links carry the bytes; p = 0 is ln N, a tree that pays latency; p = 1 is N - 1, a ring that pays latency. Every
(p, q) that the runs do not rule out stays, and the answer is the range over all of them.
"""

from dataclasses import dataclass

import numpy as np

from diagnose.arrays import Floats
from diagnose.diagnosis.terms import Estimate

RUN_NOISE = 0.016  # standard deviation of a run: benchmarks/ladder.csv, six sizes that were each run twice
_RULED_OUT = 4.0  # chi-square above the best one: two standard deviations of one quantity
_SHAPES = np.linspace(-1.0, 1.0, 21)
# the growing part over the rest, at the largest run
_SHARES = np.concatenate([np.linspace(0.0, 0.3, 121), np.geomspace(0.3, 1e2, 481)[1:]])
_FREE = 3  # a, p and q
_ENDLESS = 1e18


@dataclass(frozen=True)
class Growth:
    """The members of the model that stay; arrays of shape (members,).

    Attributes:
        shape: p of each.
        growing: q of each, seconds over those of the work at the smallest run.
        scale_s: a of each, seconds.
        weight: likelihood of each over that of the best.
    """

    shape: Floats
    growing: Floats
    scale_s: Floats
    weight: Floats

    def step_s(self, gpus: float, work: float) -> Estimate:
        """Seconds of a step on so many GPUs, each with `work` times that of the smallest run."""
        return self._range(self.scale_s * (work + self.growing * _grown(self.shape, gpus)))

    def rate_ratio(self, gpus: float, work: float, more_gpus: float, work_of_more: float) -> Estimate:
        """Rate of a GPU among `more_gpus` over its rate among `gpus`."""
        before = work / (work + self.growing * _grown(self.shape, gpus))
        return self._range(work_of_more / (work_of_more + self.growing * _grown(self.shape, more_gpus)) / before)

    def crossings(self, sizes: Floats, work: Floats) -> tuple[float | None, float | None, float | None]:
        """First of `sizes` at which what grows takes longer than the work: earliest, likely, latest; None: at none.

        Args:
            sizes: GPUs, ascending, shape (n,).
            work: of a GPU at each, shape (n,).
        """
        grown = _grown(self.shape[:, None], sizes[None, :])
        beyond = self.growing[:, None] * grown > work[None, :]
        first = np.where(beyond.any(axis=1), sizes[np.argmax(beyond, axis=1)], np.inf)
        earliest, likely, latest = (size if np.isfinite(size) else None for size in self._range(first))
        return earliest, likely, latest

    def _range(self, values: Floats) -> Estimate:
        """Least, weighted median and greatest over the members."""
        order = np.argsort(values)
        middle = int(np.searchsorted(np.cumsum(self.weight[order]), self.weight.sum() / 2))
        return float(values.min()), float(values[order[middle]]), float(values.max())


def fitted(gpus: Floats, work: Floats, seconds: Floats, noise: Floats) -> Growth | None:
    """Fit the members of the model that the runs do not rule out; None if they have fewer than two sizes.

    Args:
        gpus: GPUs of each run, shape (runs,).
        work: work of a GPU in a step over that of the smallest run, shape (runs,).
        seconds: seconds of a step, shape (runs,).
        noise: standard deviation of each step time, as a share of it, shape (runs,).
    """
    if len(np.unique(gpus)) < 2:
        return None
    shape, share = (axis.ravel() for axis in np.meshgrid(_SHAPES, _SHARES, indexing="ij"))
    largest = int(np.argmax(gpus))
    growing = share * work[largest] / _grown(shape, float(gpus[largest]))
    modelled = work[None, :] + growing[:, None] * _grown(shape[:, None], gpus[None, :])
    apart = np.log(seconds)[None, :] - np.log(modelled)
    weight = 1 / noise**2
    log_scale = (apart * weight).sum(axis=1) / weight.sum()
    misfit = (((apart - log_scale[:, None]) / noise) ** 2).sum(axis=1)
    spread = max(float(misfit.min()) / max(len(gpus) - _FREE, 1), 1.0)
    beyond = (misfit - misfit.min()) / spread
    kept = beyond <= _RULED_OUT
    return Growth(shape[kept], growing[kept], np.exp(log_scale[kept]), np.exp(-beyond[kept] / 2))


def _grown(shape: Floats, gpus: Floats | float) -> Floats:
    """Return f_p(N), which is ln N if p is 0."""
    flat = np.abs(shape) < 1e-9
    power = np.where(flat, 1.0, shape)
    return np.minimum(np.where(flat, np.log(gpus), (np.power(gpus, power) - 1) / power), _ENDLESS)
