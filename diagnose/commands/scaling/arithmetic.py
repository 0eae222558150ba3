"""Arithmetic on [low, likely, high]."""

from collections.abc import Callable

from diagnose.diagnosis.terms import Estimate


def scaled(estimate: Estimate, factor: float) -> Estimate:
    """Each times a positive factor."""
    return each(estimate, lambda value: value * factor)


def each(estimate: Estimate, function: Callable[[float], float]) -> Estimate:
    """A function that grows with its argument."""
    low, likely, high = estimate
    return function(low), function(likely), function(high)


def inverse(estimate: Estimate, function: Callable[[float], float]) -> Estimate:
    """A function that falls with its argument."""
    low, likely, high = estimate
    return function(high), function(likely), function(low)
