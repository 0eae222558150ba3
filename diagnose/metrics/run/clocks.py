"""The GPU during the capture: its clock and what limits it, its memory errors and links, and other processes on it."""

from collections.abc import Sequence

from diagnose.facts import DIAGNOSE_RUN, Unknown, Value, another_run
from diagnose.formulas import share
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.unknowns import NO_RECORD
from diagnose.trace.readings import (
    POWER_BRAKE,
    POWER_CAP,
    THERMAL,
    clock_of,
    held_share,
    highest_clock,
    limit,
    reading,
    total,
)

READINGS = "the readings"
NOT_READ = Unknown("the capture record holds no such reading of the machine", DIAGNOSE_RUN)
_AGAIN = another_run("diagnose run again, where nothing keeps it from reading the machine beside the job")
_PCIE_GBITS = {1: 2.0, 2: 4.0, 3: 7.877, 4: 15.754, 5: 31.508, 6: 60.5}  # of a lane and direction, net, by generation


def read(m: Measured, value: float | None) -> Value:
    """The reading, or why it is not known."""
    return _not_read(m) if value is None else value


def _not_read(m: Measured) -> Unknown:
    if not m.record:
        return NO_RECORD
    why = m.record.text("machine_samples.why_none")
    return Unknown(f"the machine was not read: {why}", _AGAIN) if why else NOT_READ


@metric("mhz")
def gpu_clock_mhz(m: Measured) -> Value:
    """Clock of the GPU's multiprocessors while it works: the median over the window, else once when it ended."""
    clock = clock_of(m.record)
    return read(m, clock.mhz if clock else None)


@metric("mhz")
def gpu_clock_max_mhz(m: Measured) -> Value:
    """The highest clock that the GPU's multiprocessors can have."""
    return read(m, highest_clock(m.record))


@metric("share", "the GPU's highest clock")
def lost_clock_share(m: Measured) -> Value:
    """How far the clock of the GPU's multiprocessors is below its maximum while it works."""
    clock, highest = clock_of(m.record), highest_clock(m.record)
    return read(m, 1 - min(clock.mhz / highest, 1.0) if clock and highest else None)


@metric("celsius")
def gpu_temperature_celsius(m: Measured) -> Value:
    """The highest temperature of the GPU in the window."""
    sampled = reading(m.record, "temperature_c")
    return read(m, sampled.most if sampled else m.record.number("device.nvml.temperature_c"))


def _held(m: Measured, reasons: Sequence[str]) -> Value:
    return read(m, held_share(m.record, reasons))


@metric("share", READINGS)
def thermal_throttle_share(m: Measured) -> Value:
    """Readings in which heat holds the GPU's clock down."""
    return _held(m, THERMAL)


@metric("share", READINGS)
def power_throttle_share(m: Measured) -> Value:
    """Readings in which the power limit lowers the GPU's clock; usual if matrix products keep the GPU busy."""
    return _held(m, POWER_CAP)


@metric("share", READINGS)
def power_brake_share(m: Measured) -> Value:
    """Readings in which the machine's power supply holds the GPU's clock down."""
    return _held(m, POWER_BRAKE)


@metric("share", "the board's own power limit")
def power_limit_share(m: Measured) -> Value:
    """The power that the GPU may take."""
    allowed, usual = limit(m.record, "power_limit_w"), limit(m.record, "power_limit_default_w")
    return read(m, share(allowed or None, usual))


@metric("share", "what GPU and slot can do")
def lost_pcie_share(m: Measured) -> Value:
    """Share of the possible PCIe bandwidth that the GPU's link lacks, by lanes and generation of the fastest reading:
    an idle link slows down.
    """
    now = _pcie(*(getattr(reading(m.record, f"pcie_{of}"), "most", None) for of in ("generation", "width")))
    most = _pcie(*(limit(m.record, f"pcie_{of}_max") for of in ("generation", "width")))
    return read(m, 1 - min(now / most, 1.0) if now and most else None)


def _pcie(generation: float | None, lanes: float | None) -> float | None:
    rate = _PCIE_GBITS.get(int(generation or 0))
    return rate * lanes if rate and lanes else None


@metric("text")
def pcie_link(m: Measured) -> Value:
    """The GPU's PCIe link: "x4 of generation 3"."""
    generation, lanes = (reading(m.record, f"pcie_{of}") for of in ("generation", "width"))
    if generation is None or lanes is None:
        return _not_read(m)
    return f"x{lanes.most:.0f} of generation {generation.most:.0f}"


@metric("count")
def corrected_memory_errors(m: Measured) -> Value:
    """Errors of the GPU's memory that were corrected during the run."""
    return read(m, total(m.record, "ecc_corrected"))


@metric("count")
def uncorrected_memory_errors(m: Measured) -> Value:
    """Errors of the GPU's memory that were not corrected during the run, and rows that could not be replaced."""
    errors, failed = total(m.record, "ecc_uncorrected"), limit(m.record, "remap_failed")
    return read(m, None if errors is None else errors + (failed or 0.0))


@metric("count")
def pcie_replays(m: Measured) -> Value:
    """Packets that were sent again over the GPU's PCIe link during the run, because they arrived damaged."""
    return read(m, total(m.record, "pcie_replays"))


@metric("count")
def gpu_processes(m: Measured) -> Value:
    """Processes that compute on the GPU, this one included; the most at a time."""
    sampled = reading(m.record, "gpu_processes")
    return read(m, sampled.most if sampled else None)


@metric("count")
def missing_nvlinks(m: Measured) -> Value:
    """NVLinks of the GPU that are down in some reading, against another reading or the best GPU of the host."""
    up = reading(m.record, "nvlinks")
    if up is None:
        return read(m, 0.0 if reading(m.record, "pcie_width") is not None else None)  # a GPU without any lacks none
    return max(up.most, limit(m.record, "nvlinks_of_host") or 0.0) - up.least
