"""Scaling of a job with its ranks, and the value of a partial speed-up."""

import math

from diagnose.formulas.throughput import step_s


def total_rate(ranks: int, rate_per_rank: float) -> float:
    """Rate of the job from that of one rank."""
    return ranks * rate_per_rank


def scaling_speedup(ranks: int, rate_per_rank: float, rate_alone: float) -> float:
    """Rate of the job over that of a single rank by itself: N·r_N / r_1."""
    return total_rate(ranks, rate_per_rank) / rate_alone


def scaling_efficiency(rate_per_rank: float, rate_alone: float) -> float:
    """Rate of a rank in the job over that of a rank by itself. Share of linear scaling.

    With linear billing this is cost efficiency too.
    """
    return rate_per_rank / rate_alone


def cost_factor(rate_per_rank: float, rate_alone: float) -> float:
    """Cost of a token in the job over its cost on a single rank, with linear billing."""
    return 1 / scaling_efficiency(rate_per_rank, rate_alone)


def doubling_efficiency(ranks: int, rate_per_rank: float, rate_per_rank_doubled: float) -> float:
    """Rate of twice the ranks over twice the rate of the ranks: what the last doubling was worth."""
    return total_rate(2 * ranks, rate_per_rank_doubled) / (2 * total_rate(ranks, rate_per_rank))


def efficiency_per_doubling(ranks: int, rate_per_rank: float, more_ranks: int, rate_per_rank_of_more: float) -> float:
    """The same between any two sizes: the mean of the doublings between them, (r_M / r_N)^(1 / log2(M / N))."""
    return float((rate_per_rank_of_more / rate_per_rank) ** (1 / math.log2(more_ranks / ranks)))


def scaling_tax_s(batch: float, tokens: int, rate_per_rank: float, rate_alone: float) -> float:
    """Seconds that a step lasts longer in the job than on a single rank; rates in tokens per second."""
    return step_s(batch, tokens, rate_per_rank) - step_s(batch, tokens, rate_alone)


def amdahl_speedup(share: float, factor: float) -> float:
    """Speed-up of the whole when a share of its time becomes faster by a factor (Amdahl 1967)."""
    return 1 / (1 - share + share / factor)


def amdahl_bound(share: float) -> float:
    """Speed-up of the whole when a share of its time vanishes."""
    return amdahl_speedup(share, float("inf"))
