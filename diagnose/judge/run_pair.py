"""The speed of one run over another of the same job: how far repeats of a run lie apart, and what their work allows."""

import math
from typing import Protocol

from diagnose.diagnosis import Estimate
from diagnose.facts import Scalar
from diagnose.judge.mean_step import MeanStep, half_width

FLOOR = 0.015  # 99 % of the pairs of equal runs on GPUs lie closer: benchmarks/accuracy/compare.py
FLOOR_ON_HOST = 0.05  # without a GPU, in addition to how far stretches of one run lie apart: benchmarks/tune.py
FLOOR_OF_BRIEF = 0.40  # an estimate for steps that take less than BRIEF_NS, which do not show that
BRIEF_NS = 5e9
LEAST_STEPS = 2  # one step does not tell how far steps lie apart
SAME_WORK = 0.005  # share by which numbers of the same work may differ
_LEAST = 1e-9  # a factor beyond this is damage
WIDEST = 2.0  # a pair that could not show this factor shows none


class StepWork(Protocol):
    """The work of a step of one rank; None is unknown."""

    @property
    def tokens_per_step(self) -> float | None:
        """Tokens of all its samples, padding included."""

    @property
    def padding_share(self) -> float | None:
        """Share of these tokens that is padding."""

    @property
    def useful_tokens_per_step(self) -> float | None:
        """Tokens that are no padding, over all batches that were seen."""

    @property
    def samples_per_step(self) -> float | None:
        """Samples."""


def speedup_between(
    before: MeanStep, after: MeanStep, ratio: float, floor_share: float, drifts: bool
) -> tuple[Estimate | None, float | None]:
    """The speed as [low, mid, high] with a 99 % interval, and half the width of its logarithm; None if unknown.

    Args:
        before: the steps of the run before.
        after: those of the run after.
        ratio: work of a step after over that before.
        floor_share: how far repeats of a run lie apart.
        drifts: whether the machine changes its speed within seconds.
    """
    width = half_width(before, after, floor_share, drifts)
    mid = before.mean_ns / after.mean_ns * ratio
    if width is None or not _LEAST < mid < 1 / _LEAST or width > max(math.log(WIDEST), abs(math.log(mid))):
        return None, None
    return (mid * math.exp(-width), mid, mid * math.exp(width)), width


def is_brief(before: MeanStep | None, after: MeanStep | None) -> bool:
    """Whether the steps of a side end before the cores change their speed, which takes seconds."""
    return any(side is not None and side.lasts_ns < BRIEF_NS for side in (before, after))


def useful_tokens(before: StepWork, after: StepWork) -> tuple[float | None, float | None]:
    """Tokens per step of a rank: those that are no padding if both sides know its share, else all."""
    if before.useful_tokens_per_step and after.useful_tokens_per_step:
        return before.useful_tokens_per_step, after.useful_tokens_per_step
    one, other = before.tokens_per_step, after.tokens_per_step
    if one is None or other is None or before.padding_share is None or after.padding_share is None:
        return one, other
    return one * (1 - before.padding_share), other * (1 - after.padding_share)


def work_ratio(before: StepWork, after: StepWork) -> tuple[str, float] | None:
    """The rate that compares the work of two steps, and the work after over that before; None if neither is known.

    A ratio that is 1 but for the rounding of its numbers is 1.
    """
    rates = (
        ("tokens/s", *useful_tokens(before, after)),
        ("samples/s", before.samples_per_step, after.samples_per_step),
    )
    return next(((unit, other / one) for unit, one, other in rates if one and other), None)


def differ(one: Scalar, other: Scalar) -> bool:
    """Whether two properties of the work of a step are not the same; numbers may differ by rounding."""
    if isinstance(one, str | bool) or isinstance(other, str | bool):
        return one != other
    return abs(one - other) > SAME_WORK * max(abs(one), abs(other))
