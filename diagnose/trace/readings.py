"""The record's readings of the machine during the steps, else the single reading at the end of the window."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from diagnose.trace.record import CaptureRecord

THERMAL, POWER_CAP, POWER_BRAKE = ("sw_thermal", "hw_thermal"), ("sw_power_cap",), ("hw_power_brake",)
_IDLE = "gpu_idle"
_AT_END = "device.nvml"
_SPOKEN = {
    "sw_thermal": "heat",
    "hw_thermal": "heat",
    "sw_power_cap": "its power limit",
    "hw_power_brake": "the power supply",
    "hw_slowdown": "heat or the power supply",
    "applications_clocks": "a clock that is set for it",
    "sync_boost": "the clocks of other GPUs",
}
_MOSTLY = 0.5  # of the readings: less does not lower the median clock

Kind = Literal["gauges", "rates"]


@dataclass(frozen=True)
class QuantityRange:
    """Least, median and greatest value of one quantity in the window, or over the run if the window has none."""

    least: float
    median: float
    most: float


@dataclass(frozen=True)
class GpuClock:
    """The clock of a GPU's multiprocessors while it worked, in MHz, and its limits in words; None if not recorded."""

    mhz: float
    held_by: tuple[str, ...] | None = None


def reading(record: CaptureRecord, name: str, kind: Kind = "gauges") -> QuantityRange | None:
    """The quantity of that name; None if it was not read."""
    for over in ("window", "run"):
        told = record.get(f"machine_samples.{kind}.{name}.{over}")
        if isinstance(told, Sequence) and len(told) == 3 and None not in told:
            return QuantityRange(*told)
    return None


def limit(record: CaptureRecord, name: str) -> float | None:
    """A constant, such as the highest clock; None if it was not read."""
    return record.number(f"machine_samples.limits.{name}")


def total(record: CaptureRecord, name: str) -> float | None:
    """The count of a quantity over the run; None if it was not read."""
    return record.number(f"machine_samples.totals.{name}")


def process_tree_cpu_ns(record: CaptureRecord) -> float | None:
    """CPU time per second of the process and its children in the median second; None if it was not read."""
    own, children = (reading(record, name, "rates") for name in ("process_cpu_ns", "workers_cpu_ns"))
    return None if own is None or children is None else own.median + children.median


def held_share(record: CaptureRecord, reasons: Sequence[str]) -> float | None:
    """Share of the readings in which one of the reasons limits the clock, at least; None if unknown."""
    told = record.get("machine_samples.throttled")
    if isinstance(told, dict):
        return max((_of_window(record, reason) for reason in reasons), default=0.0)
    at_end = record.get(f"{_AT_END}.throttle_reasons")
    return float(any(reason in at_end for reason in reasons)) if isinstance(at_end, list) else None


def clock_of(record: CaptureRecord) -> GpuClock | None:
    """The clock of the GPU while it worked: the median reading, else the one when the window ended."""
    sampled = reading(record, "sm_clock_mhz")
    if sampled is not None:
        shares = {reason: held_share(record, (reason,)) for reason in _SPOKEN}
        told = None not in shares.values()
        held = [reason for reason, share in shares.items() if (share or 0.0) > _MOSTLY]
        return GpuClock(sampled.median, spoken_reasons(held) if told else None)
    at_end, reasons = record.number(f"{_AT_END}.sm_clock_mhz"), record.get(f"{_AT_END}.throttle_reasons")
    if at_end is None or (isinstance(reasons, list) and _IDLE in reasons):
        return None
    return GpuClock(at_end, spoken_reasons(reasons) if isinstance(reasons, list) else None)


def highest_clock(record: CaptureRecord) -> float | None:
    """The highest clock that the GPU's multiprocessors can have, MHz."""
    return limit(record, "sm_clock_max_mhz") or record.number(f"{_AT_END}.sm_clock_max_mhz") or None


def spoken_reasons(reasons: Sequence[str]) -> tuple[str, ...]:
    """The limits on a clock in words, each once; reasons that do not slow it are left out."""
    return tuple(dict.fromkeys(_SPOKEN[reason] for reason in reasons if reason in _SPOKEN))


def _of_window(record: CaptureRecord, reason: str) -> float:
    text = f"machine_samples.throttled.{reason}"
    of_window = record.number(f"{text}.window")
    return (record.number(f"{text}.run") or 0.0) if of_window is None else of_window
