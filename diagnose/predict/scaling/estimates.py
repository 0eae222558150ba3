"""Arithmetic on [low, likely, high]."""

from collections.abc import Callable

from diagnose.predict.scaling.growth import Estimate


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


def where_known(estimate: Estimate, function: Callable[[float], float | None]) -> Estimate | None:
    """A function that grows with its argument; None where it knows nothing."""
    low, likely, high = (function(value) for value in estimate)
    return None if low is None or likely is None or high is None else (low, likely, high)
