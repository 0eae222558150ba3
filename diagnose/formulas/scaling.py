"""How a job scales with its ranks."""

import math

from diagnose.formulas.throughput import step_s


def scaling_efficiency(rate_per_rank: float, rate_alone: float) -> float:
    """Rate of a rank in the job over that of a rank by itself. Share of linear scaling.

    With linear billing this is cost efficiency too.
    """
    return rate_per_rank / rate_alone


def cost_factor(rate_per_rank: float, rate_alone: float) -> float:
    """Cost of a token in the job over its cost on a single rank, with linear billing."""
    return 1 / scaling_efficiency(rate_per_rank, rate_alone)


def efficiency_per_doubling(ranks: int, rate_per_rank: float, more_ranks: int, rate_per_rank_of_more: float) -> float:
    """Mean efficiency of the doublings between two sizes of the job: (r_M / r_N)^(1 / log2(M / N))."""
    return float((rate_per_rank_of_more / rate_per_rank) ** (1 / math.log2(more_ranks / ranks)))


def scaling_tax_s(batch: float, tokens: int, rate_per_rank: float, rate_alone: float) -> float:
    """Seconds that a step lasts longer in the job than on a single rank; rates in tokens per second."""
    return step_s(batch, tokens, rate_per_rank) - step_s(batch, tokens, rate_alone)
