"""The growth of one job's runs, with the work of a GPU at each size."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from diagnose.arrays import Floats
from diagnose.commands.scaling.answer import Kind, Wall
from diagnose.diagnosis.terms import Estimate
from diagnose.predict.growth import Growth, fitted
from diagnose.predict.job_run import JobRun, measured_rate

_ALIKE = 0.02  # by which tokens of a step may differ and count as the same
_HORIZON = 64  # times the largest size: how far a wall is looked for
_NOT_ONE_JOB = 1.1  # times the rate of a GPU of the smallest run


@dataclass(frozen=True)
class Fit:
    """The runs of a job that have a rate, and the growth that they show.

    Attributes:
        runs: by GPUs.
        kind: weak, strong, mixed or unknown.
        growth: of the time in which a GPU does the work of a step, in GPU-seconds per token of the smallest run's step.
        because: why other sizes cannot be predicted, "" if they can.
    """

    runs: Sequence[JobRun]
    kind: Kind
    growth: Growth | None
    because: str

    @property
    def base(self) -> int:
        """The smallest size."""
        return self.runs[0].gpus

    @property
    def largest(self) -> int:
        """The most GPUs that were run."""
        return self.runs[-1].gpus

    @property
    def base_tokens(self) -> float | None:
        """Tokens of a step of a GPU at the smallest size."""
        tokens = self.runs[0].tokens_per_step
        return None if tokens is None else tokens / self.base

    def work(self, gpus: float) -> float | None:
        """Work of a GPU in a step at another size, over that at the smallest; None if it follows no rule."""
        if self.kind == "mixed":
            return None
        return self.base / gpus if self.kind == "strong" else 1.0

    def rate_at(self, gpus: int) -> Estimate:
        """Tokens per second of the job: measured if it was run at this size, else predicted from the growth."""
        here = [run for run in self.runs if run.gpus == gpus]
        return measured_rate(here) if here else self._rate_beyond(gpus)

    def _rate_beyond(self, gpus: int) -> Estimate:
        work = self.work(gpus)
        assert self.growth is not None
        assert work is not None
        low_s, likely_s, high_s = self.growth.step_s(gpus, work)
        return gpus * work / high_s, gpus * work / likely_s, gpus * work / low_s

    def doubling(self, before: int, gpus: int) -> Estimate | None:
        """Gain of each doubling since the size before, by the growth: the rate of a GPU over its rate before."""
        work, more = self.work(before), self.work(gpus)
        if self.growth is None or work is None or more is None:
            return None
        low, likely, high = self.growth.rate_ratio(before, work, gpus, more)
        doublings = float(np.log2(gpus / before))
        return low ** (1 / doublings), likely ** (1 / doublings), high ** (1 / doublings)

    def wall(self) -> Wall:
        """The number of GPUs at which the growing time exceeds that of the work, with its bounds."""
        if self.growth is None or self.because:
            return Wall(because=self.because)
        horizon = _HORIZON * self.largest
        sizes = np.unique(np.round(np.geomspace(2, horizon, 400)))
        work = np.array([self.work(float(size)) for size in sizes], np.float64)
        found = (None if size is None else int(size) for size in self.growth.crossings(sizes, work))
        earliest, likely, latest = found
        return Wall(earliest=earliest, likely=likely, latest=latest, horizon=horizon)


def fit_of(runs: Sequence[JobRun]) -> Fit:
    """The fit of runs that all have a rate."""
    kind = kind_of(runs)
    gpus = np.array([float(run.gpus) for run in runs])
    amounts = _amounts(runs)
    work = np.ones(len(runs)) if amounts is None else amounts / gpus / (amounts[0] / gpus[0])
    rate = np.array([run.tokens_per_s or 0.0 for run in runs])
    growth = fitted(gpus, work, work * gpus / rate, np.array([run.noise_share for run in runs]))
    return Fit(runs, kind, growth, _why_no_further(runs, kind, growth))


def kind_of(runs: Sequence[JobRun]) -> Kind:
    """Weak, strong or mixed scaling, by the tokens of a step, else its samples; unknown if a run has neither."""
    amounts = _amounts(runs)
    if amounts is None:
        return "unknown"
    per_gpu = amounts / np.array([run.gpus for run in runs])
    if _same(per_gpu):
        return "weak"
    return "strong" if _same(amounts) else "mixed"


def _same(values: Floats) -> bool:
    return bool(values.max() <= (1 + _ALIKE) * values.min())


def _amounts(runs: Sequence[JobRun]) -> Floats | None:
    """Tokens of a step of each run, else their samples; None if a run lacks both."""
    for told in ([run.tokens_per_step for run in runs], [run.samples_per_step for run in runs]):
        if all(told):
            return np.array(told, np.float64)
    return None


def _per_gpu(run: JobRun) -> float:
    return (run.tokens_per_s or 0.0) / run.gpus


def _why_no_further(runs: Sequence[JobRun], kind: Kind, growth: Growth | None) -> str:
    if growth is None:
        return f"all runs have {runs[0].gpus} GPUs: how a job grows takes two sizes at least"
    if kind == "mixed":
        return "the tokens of a step follow neither the GPUs nor the job: run sizes with the same tokens per GPU"
    alone = runs[0]
    faster = [run for run in runs if _per_gpu(run) > _NOT_ONE_JOB * _per_gpu(alone)]
    if faster:
        times = _per_gpu(faster[0]) / _per_gpu(alone)
        return (
            f"a GPU is {times:.2f} times as fast among {faster[0].gpus} as among {alone.gpus}: these runs do not do the"
            " same work, or the smallest was held up"
        )
    if all(run.nodes == 1 for run in runs):
        return "no run spans two nodes, so that what the network between them costs is not measured"
    return ""
