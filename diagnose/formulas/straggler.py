"""Which rank is slow, and what the job would be without it."""

from collections.abc import Sequence
from statistics import median

SLOW_SCORE = 0.75  # NVIDIA Resiliency Extension's threshold
CHANGE_SHARE = 0.1  # Greyhound's threshold


def relative_scores(durations: Sequence[float]) -> list[float]:
    """For each rank, the median duration over its own: below 1 is slower (NVIDIA Resiliency Extension)."""
    typical = median(durations)
    return [typical / duration for duration in durations]


def is_slow(score: float) -> bool:
    """Whether a relative score marks a straggler."""
    return score < SLOW_SCORE


def slowdown(actual: float, ideal: float) -> float:
    """Duration over that without stragglers: mean compute and median transfer everywhere (Lin et al., OSDI 2025)."""
    return actual / ideal


def removed_contribution(actual: float, without: float, ideal: float) -> float:
    """Part of the slowdown that vanishes without one suspect, of the whole slowdown (Lin et al., OSDI 2025)."""
    return (actual - without) / (actual - ideal)


def change_share(before: float, after: float) -> float:
    """Difference of two mean step times over the larger one (Greyhound, ATC 2025)."""
    return abs(before - after) / max(before, after)


def is_change_point(before: float, after: float) -> bool:
    """Whether the step time changed rather than wavered."""
    return change_share(before, after) > CHANGE_SHARE


def gpu_hours_lost_per_day(ranks: int, speedup: float) -> float:
    """GPU-hours of a day that a job would not need for the same work if its steps were faster by the factor."""
    return 24 * ranks * (1 - 1 / speedup)
