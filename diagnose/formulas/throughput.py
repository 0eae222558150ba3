"""Tokens, samples and steps per second."""


def tokens_per_s(steps: float, batch: int, tokens: int, seconds: float, ranks: int = 1) -> float:
    """Tokens per second of the job.

    Args:
        steps: optimizer steps.
        batch: sequences of a step on one rank.
        tokens: true length of a sequence. A maximum that samples do not reach inflates the rate.
        seconds: duration of the steps.
        ranks: data-parallel ranks.
    """
    return steps * batch * ranks * tokens / seconds


def step_s(batch: float, tokens: int, tokens_per_s: float) -> float:
    """Seconds of a step at a rate in tokens per second."""
    return batch * tokens / tokens_per_s


def speedup(before: float, after: float) -> float:
    """Factor between two rates, above 1 when `after` is faster."""
    return after / before


def gpu_hours_lost_per_day(ranks: int, speedup: float) -> float:
    """GPU-hours of a day that a job would not need for the same work if its steps were faster by the factor."""
    return 24 * ranks * (1 - 1 / speedup)
