"""One unit for a whole column, so that its cells can be compared by eye."""

from collections.abc import Iterable

import msgspec


class OneUnit(msgspec.Struct, frozen=True):
    """A unit of a column: its name, its size in the base unit, and the decimals of a cell."""

    name: str
    size: float
    digits: int = 1

    def cell(self, value: float, sign: bool = False) -> str:
        """`value`, in the base unit, as a cell; "-" is nothing, and what rounds to zero keeps a digit."""
        if not value:
            return "-"
        if abs(value) < 0.5 * 10**-self.digits * self.size:
            return f"< {10**-self.digits:.{self.digits}f} {self.name}"
        return f"{'+' if sign and value > 0 else ''}{self.of(value)}"

    def of(self, value: float) -> str:
        """`value` in this unit, whatever is left of it."""
        return f"{value / self.size:,.{self.digits}f} {self.name}"


_TIMES = (OneUnit("s", 1e9, 3), OneUnit("ms", 1e6), OneUnit("us", 1e3))
_SIZES = (OneUnit("GiB", 2**30, 2), OneUnit("MiB", 2**20), OneUnit("KiB", 2**10))
_RATES = (OneUnit("GB/s", 1e9, 2), OneUnit("MB/s", 1e6), OneUnit("kB/s", 1e3))


def of_times(ns: Iterable[float]) -> OneUnit:
    """The unit of a column of nanoseconds, which suits the longest."""
    return _suiting(_TIMES, ns)


def of_sizes(sizes: Iterable[float]) -> OneUnit:
    """The unit of a column of bytes, which suits the largest."""
    return _suiting(_SIZES, sizes)


def of_rates(bytes_per_s: Iterable[float]) -> OneUnit:
    """The unit of a column of bytes per second, which suits the largest."""
    return _suiting(_RATES, bytes_per_s)


def _suiting(units: tuple[OneUnit, ...], values: Iterable[float]) -> OneUnit:
    largest = max(map(abs, values), default=0)
    return next((unit for unit in units if largest >= unit.size), units[-1])
