"""The question about the runs of a job at several sizes."""

from dataclasses import dataclass, field

from diagnose.predict.costs import Tariff

FURTHER = 8  # times the largest size that was run


@dataclass(frozen=True)
class ScalingQuestion:
    """The user's statements and questions. None is not asked or not known.

    Attributes:
        tariff: what a GPU-hour costs.
        tokens: to train on.
        deadline_h: hours within which.
        budget: money, in the currency of the price.
        up_to: GPUs that are considered, at most; None for `FURTHER` times the most that were run.
        tokens_per_step: of the whole job, if a run does not state it.
        tokens_per_step_per_gpu: the same by GPU.
    """

    tariff: Tariff = field(default_factory=Tariff)
    tokens: float | None = None
    deadline_h: float | None = None
    budget: float | None = None
    up_to: int | None = None
    tokens_per_step: float | None = None
    tokens_per_step_per_gpu: float | None = None
