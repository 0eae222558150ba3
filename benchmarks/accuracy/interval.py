"""The 95 % interval of a rate that was counted (Clopper and Pearson 1934)."""

from collections.abc import Callable
from math import comb

_EACH_SIDE = 0.025
_STEPS = 50  # bisections


def interval(right: int, of: int) -> tuple[float, float]:
    """The rates, as fractions, at which one in 40 draws of `of` has so many or more, and so many or fewer.

    Raises:
        ValueError: `right` is no count of `of`.
    """
    if not 0 <= right <= of or not of:
        raise ValueError(f"{right} of {of} is no count of some")
    low = 0.0 if right == 0 else _where(lambda rate: 1 - _at_most(right - 1, of, rate) >= _EACH_SIDE)
    high = 1.0 if right == of else _where(lambda rate: _at_most(right, of, rate) <= _EACH_SIDE)
    return low, high


def _at_most(count: int, of: int, rate: float) -> float:
    return sum(comb(of, k) * rate**k * (1 - rate) ** (of - k) for k in range(count + 1))


def _where(holds: Callable[[float], bool]) -> float:
    """The least rate from which on it holds."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
