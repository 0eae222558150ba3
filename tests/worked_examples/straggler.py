"""Other tools' scores for a slow rank and a changed step time."""

from collections.abc import Sequence
from statistics import median


def relative_scores(durations: Sequence[float]) -> list[float]:
    """The median duration over each rank's own: below 1 is slower (NVIDIA Resiliency Extension)."""
    typical = median(durations)
    return [typical / duration for duration in durations]


def slowdown(actual: float, ideal: float) -> float:
    """Duration over that without stragglers: mean compute and median transfer everywhere (Lin et al., OSDI 2025)."""
    return actual / ideal


def removed_contribution(actual: float, without: float, ideal: float) -> float:
    """Part of the slowdown that vanishes without one suspect, of the whole slowdown (Lin et al., OSDI 2025)."""
    return (actual - without) / (actual - ideal)


def change_share(before: float, after: float) -> float:
    """Difference of two mean step times over the larger one (Greyhound, ATC 2025)."""
    return abs(before - after) / max(before, after)
