"""The cost in samples of a larger global batch, and the learning rate that goes with it."""

from typing import Literal, NamedTuple

LearningRateRule = Literal["linear", "square root"]


class CriticalBatch(NamedTuple):
    """The batch at which a step makes half of the progress that an endless batch would (McCandlish et al. 2018)."""

    size: float
    unit: Literal["tokens", "sequences"]


def samples_factor(over_critical: float, growth: float) -> float:
    """Samples to the same loss with a larger batch over those with the present one.

    A batch B takes (1 + B / B_crit) times the fewest samples that suffice (McCandlish et al. 2018, equation 2.11).

    Args:
        over_critical: the present batch over the critical one.
        growth: the larger batch over the present one.
    """
    return (1 + over_critical * growth) / (1 + over_critical)


def learning_rate_factor(growth: float, rule: LearningRateRule) -> float:
    """The learning rate over the present one: in proportion for SGD (Goyal et al. 2017), with the square root for Adam
    and RMSprop (Malladi et al. 2022).
    """
    return growth if rule == "linear" else growth**0.5
