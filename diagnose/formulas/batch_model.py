"""Step time as a straight line over the batch size: t(B) = a + b·B."""

import msgspec


class BatchModel(msgspec.Struct, frozen=True):
    """Seconds of a step: a part that the batch does not change (optimizer, gradients, host) and one per sample."""

    fixed_s: float
    per_sample_s: float

    @classmethod
    def from_fixed(cls, fixed_s: float, batch: int, step_s: float) -> "BatchModel":
        """The line through one measured step when the fixed part is known otherwise."""
        return cls(fixed_s, (step_s - fixed_s) / batch)


def recompute_gain_s(model: BatchModel, batch: int, larger_batch: float) -> float:
    """Seconds per sample that a larger batch saves on the fixed part: a·(1/B1 - 1/B2)."""
    return model.fixed_s * (1 / batch - 1 / larger_batch)


def recompute_cost_s(model: BatchModel) -> float:
    """Seconds per sample that full activation checkpointing adds: a forward pass, b/3."""
    return model.per_sample_s / 3


def recompute_pays(model: BatchModel, batch: int, larger_batch: float) -> bool:
    """Whether the batch that activation checkpointing allows is worth the forward pass that it repeats."""
    return recompute_gain_s(model, batch, larger_batch) > recompute_cost_s(model)
