"""Facts: what was measured, or why it could not be. Missing is never zero."""

from collections.abc import Mapping
from dataclasses import dataclass

Scalar = float | int | bool | str


@dataclass(frozen=True)
class Unknown:
    """A measurement that could not be made.

    Attributes:
        because: the reason, one clause.
        capture_next: what to capture so that it can be made.
    """

    because: str
    capture_next: str


@dataclass(frozen=True)
class Fact:
    """One measured value with its unit.

    Units: share, ns, bytes, count, flag, text, factor, version, flops, flops_per_s, bytes_per_s, flops_per_byte.
    """

    name: str
    value: Scalar | Unknown
    unit: str
    of: str = ""

    @property
    def known(self) -> bool:
        """Whether the value was measured."""
        return not isinstance(self.value, Unknown)


Facts = Mapping[str, Fact]


def spoken(value: Scalar | None, unit: str) -> str:
    """The value as people say it: `0.396, "share"` is "39.6 %", `174e6, "ns"` is "174.0 ms"."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if unit == "share":
        return f"{100 * value:.1f} %"
    if unit == "ns":
        return duration(value)
    if unit == "bytes":
        return scaled(value, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))
    if unit == "flops":
        return scaled(value, 1000, ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"))
    if unit == "flops_per_s":
        return scaled(value, 1000, ("FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s"))
    if unit == "bytes_per_s":
        return scaled(value, 1000, ("B/s", "kB/s", "MB/s", "GB/s"))
    if unit == "flops_per_byte":
        return f"{value:,.1f} FLOP/B"
    if unit == "version":
        return f"{value:.1f}"
    if unit == "factor":
        return f"{value:.2f}x"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def duration(ns: float) -> str:
    """Nanoseconds in the largest unit that keeps the number at or above one."""
    return scaled(ns, 1000, ("ns", "us", "ms", "s"))


def scaled(value: float, base: int, units: tuple[str, ...]) -> str:
    """`value` divided by `base` until it is below it, with the matching unit."""
    for unit in units[:-1]:
        if abs(value) < base:
            return f"{value:.0f} {unit}" if unit == units[0] else f"{value:.1f} {unit}"
        value /= base
    return f"{value:.1f} {units[-1]}"
