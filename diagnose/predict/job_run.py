"""One run of a job at one number of GPUs, from whatever source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from diagnose.diagnosis.terms import Estimate
from diagnose.predict.growth import RUN_NOISE

_CONFIDENT = 2.0  # standard deviations
MOST_GPUS = 10_000_000  # of a job: a larger number means a damaged file


@dataclass(frozen=True)
class JobRun:
    """A run of a job. None means unknown.

    Attributes:
        source: the file, folder or row that it was read from.
        gpus: GPUs of the job.
        nodes: nodes that they are in.
        step_s: seconds of a step.
        tokens_per_step: tokens of the whole job.
        samples_per_step: samples of the whole job: the work of a step if its tokens are unknown.
        tokens_per_s: rate of the whole job.
        noise_share: standard deviation of `step_s`, as a share of it.
        parts_s: seconds of a step by part; they add up to `step_s`. Empty without a diagnosis.
        communication_s: exposed communication of a step, including waits for late ranks.
        power_w: power of one GPU.
    """

    source: str
    gpus: int
    nodes: int | None = None
    step_s: float | None = None
    tokens_per_step: float | None = None
    samples_per_step: float | None = None
    tokens_per_s: float | None = None
    noise_share: float = RUN_NOISE
    parts_s: Mapping[str, float] = field(default_factory=dict)
    communication_s: float | None = None
    power_w: float | None = None

    def completed(self, tokens_per_step: float | None = None, tokens_per_step_per_gpu: float | None = None) -> "JobRun":
        """The run with what follows from the rest: of step time, tokens of a step and rate, two give the third.

        Args:
            tokens_per_step: of the whole job, as the user states them: they go before those of a run without a rate.
            tokens_per_step_per_gpu: the same by GPU.
        """
        step, rate = self.step_s, self.tokens_per_s
        of_gpus = None if tokens_per_step_per_gpu is None else tokens_per_step_per_gpu * self.gpus
        stated = tokens_per_step or of_gpus
        tokens = (stated or self.tokens_per_step) if rate is None else (self.tokens_per_step or stated)
        if step is None and tokens and rate:
            step = tokens / rate
        elif rate is None and tokens and step:
            rate = tokens / step
        elif tokens is None and step and rate:
            tokens = step * rate
        return replace(self, step_s=step, tokens_per_step=tokens, tokens_per_s=rate)


@dataclass(frozen=True)
class JobRuns:
    """Runs of one job at several sizes.

    Attributes:
        name: the settings in which it differs from the others that were read, or the input's name.
        runs: the runs in order of GPUs.
    """

    name: str
    runs: tuple[JobRun, ...]

    @property
    def sizes(self) -> list[int]:
        """The numbers of GPUs, each once, ascending."""
        return sorted({run.gpus for run in self.runs})


def measured_rate(runs: Sequence[JobRun]) -> Estimate:
    """Tokens per second of the job over the runs at one size: the median, and what they leave open."""
    rates = np.array([run.tokens_per_s for run in runs], np.float64)
    likely = float(np.median(rates))
    open_share = _CONFIDENT * max(run.noise_share for run in runs) / float(np.sqrt(len(runs)))
    low, high = likely / (1 + open_share), likely * (1 + open_share)
    return min(low, float(rates.min())), likely, max(high, float(rates.max()))
