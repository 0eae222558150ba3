"""Arithmetic on [low, likely, high]."""

from collections.abc import Callable

from diagnose.diagnosis.terms import Estimate


def scaled(estimate: Estimate, factor: float) -> Estimate:
    """The estimate times a positive factor."""
    return each(estimate, lambda value: value * factor)


def each(estimate: Estimate, function: Callable[[float], float]) -> Estimate:
    """The estimate of an increasing function."""
    low, likely, high = estimate
    return function(low), function(likely), function(high)


def inverse(estimate: Estimate, function: Callable[[float], float]) -> Estimate:
    """The estimate of a decreasing function: the ends change places."""
    low, likely, high = estimate
    return function(high), function(likely), function(low)
