"""The question that is asked of a measured pipeline."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LoaderQuestion:
    """The step that the loader has to keep up with. None is not known.

    Attributes:
        step_s: of an optimizer step that waits for no data.
        step_from: the source of `step_s`.
        batches_per_step: that a step takes; if it is not given, the value of the job's trainer, else one.
    """

    step_s: float | None = None
    step_from: str = ""
    batches_per_step: int | None = None
