"""Quantities in a machine's readings, their units, and the direction in which each is bad for the step."""

from typing import Literal

import msgspec

from diagnose.facts import spoken

_GIVEN = {"MHz": "{:,.0f} MHz", "W": "{:,.0f} W", "C": "{:.0f} degrees Celsius", "cores": "{:.1f} cores"}


class Quantity(msgspec.Struct, frozen=True):
    """A quantity.

    Attributes:
        name: name of its column: the probe's, or one computed from several.
        what: its name in words.
        unit: "MHz", "W", "C", "cores", "share" of the time, "bytes", "bytes_per_s" or "count".
        worse: 1 if more makes steps slower, -1 if less does, 0 if neither by itself.
        least: the least difference of medians to report, in its unit; if `relative`, as a share of the value before.
        per: divisor that converts a rate to its unit.
        on: "gpu" or "host".
    """

    name: str
    what: str
    unit: str
    worse: Literal[-1, 0, 1] = 0
    least: float = 0.0
    relative: bool = False
    per: float = 1.0
    on: Literal["gpu", "host"] = "host"

    def spoken(self, value: float) -> str:
        """The value with its unit."""
        if self.unit == "share":
            return spoken(value, "share")
        given = _GIVEN.get(self.unit)
        return given.format(value) if given else spoken(value, self.unit)

    def moved(self, before: float, after: float) -> bool:
        """Whether the difference is large enough to be named."""
        return abs(after - before) >= self.least * (abs(before) if self.relative else 1.0) > 0


_S = 1e9
OTHERS = "others_cpu_ns"  # made of four: what all cores did, less what was stolen and what the job did
CLOCK = "sm_clock_mhz"
QUANTITIES = (
    Quantity(CLOCK, "SM clock", "MHz", -1, 0.05, relative=True, on="gpu"),
    Quantity("memory_clock_mhz", "memory clock", "MHz", -1, 0.05, relative=True, on="gpu"),
    Quantity("temperature_c", "temperature of the GPU", "C", on="gpu"),
    Quantity("power_w", "power of the GPU", "W", on="gpu"),
    Quantity("gpu_processes", "processes on the GPU", "count", 1, 1.0, on="gpu"),
    Quantity("waited_for_core_ns", "time that the training thread waits for a core", "share", 1, 0.05, per=_S),
    Quantity("throttled_ns", "time held back by the CPU quota", "share", 1, 0.05, per=_S),
    Quantity("stolen_ns", "cores taken by other virtual machines", "cores", 1, 0.2, per=_S),
    Quantity(OTHERS, "cores busy with other processes", "cores", 1, 0.3, per=_S),
    Quantity("process_cpu_ns", "cores busy with this process", "cores", per=_S),
    Quantity("swap_bytes", "swapping", "bytes_per_s", 1, 1e6),
    Quantity("memory_pressure_ns", "time that something waits for memory", "share", 1, 0.05, per=_S),
    Quantity("storage_wait_ns", "time that something waits for a disk", "share", 1, 0.1, per=_S),
    Quantity("cpu_pressure_ns", "time that something waits for a core", "share", 1, 0.2, per=_S),
    Quantity("far_from_gpu", "time on a core far from the GPU", "share", 1, 0.5),
    Quantity("available_bytes", "memory left on the host", "bytes", -1),
)
""" `available_bytes` is told with its least, and explains no step by itself."""
