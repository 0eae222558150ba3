"""For each rule about clocks, links, errors and cores the readings of a faulty machine, and those of a sound one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from faulty_traces import MIB, steps
from kineto import Trace

from diagnose.diagnosis import Severity

Record = Mapping[str, Any]


def steady(value: float) -> dict[str, list[float]]:
    """A quantity that was the same in each reading."""
    return {"run": [value] * 3, "window": [value] * 3}


GAUGES = {
    "sm_clock_mhz": 1755,
    "temperature_c": 61,
    "power_w": 640,
    "pcie_generation": 5,
    "pcie_width": 16,
    "nvlinks": 18,
    "gpu_processes": 1,
    "far_from_gpu": 0,
}
RATES = {
    "waited_for_core_ns": 1e6,
    "throttled_ns": 0,
    "allowed_cores_cpu_ns": 1.2e9,
    "process_cpu_ns": 1e9,
    "workers_cpu_ns": 0,
    "storage_wait_ns": 5e6,
    "disk_read_bytes": 2e6,
    "workers_disk_read_bytes": 0,
    "read_again_bytes": 0,
    "network_received_bytes": 1e5,
}
TOTALS = {"ecc_corrected": 0, "ecc_uncorrected": 0, "pcie_replays": 0, "swap_bytes": 0}
LIMITS = {
    "sm_clock_max_mhz": 1980,
    "power_limit_w": 700,
    "power_limit_default_w": 700,
    "pcie_generation_max": 5,
    "pcie_width_max": 16,
    "nvlinks_of_host": 18,
    "cores": 16,
    "cores_allowed": 8,
    "cores_near_gpu": 8,
    "numa_nodes": 2,
}


def readings(
    gauges: Mapping[str, float] | None = None,
    rates: Mapping[str, float] | None = None,
    totals: Mapping[str, float] | None = None,
    limits: Mapping[str, float] | None = None,
    throttled: Mapping[str, float] | None = None,
) -> Record:
    """The record of a machine that is sound but for what is given."""
    return {
        "cores": {"usable": 8, "local_ranks": 1},
        "machine_samples": {
            "samples": 20,
            "in_window": 8,
            "wall_s": 20.0,
            "gauges": {name: steady(value) for name, value in {**GAUGES, **(gauges or {})}.items()},
            "rates": {name: steady(value) for name, value in {**RATES, **(rates or {})}.items()},
            "totals": {**TOTALS, **(totals or {})},
            "limits": {**LIMITS, **(limits or {})},
            "throttled": {name: {"run": share, "window": share} for name, share in (throttled or {}).items()},
        },
    }


@dataclass(frozen=True)
class Machine:
    """A fault as the rule of its name answers it: the severity, what is read, and a part of what is said or advised."""

    severity: Severity
    record: Record
    says: str
    job: Trace = field(default_factory=steps)


def waits_for_data() -> Trace:
    """Steps that wait for the next batch."""
    return steps(lambda job: job.loader(us=2200))


SLEEPS = {"loading": {"wall_ns": 10**9, "cpu_ns": 5 * 10**7, "together_cpu_ns": 10**8, "workers": 2, "fetches": 10}}
SOUND = readings()
CASES: Mapping[str, Machine] = {
    "low-clock": Machine("warning", readings({"sm_clock_mhz": 1155}), "1,155 MHz of 1,980 MHz"),
    "thermal-throttling": Machine(
        "critical",
        readings({"sm_clock_mhz": 1155, "temperature_c": 91}, throttled={"sw_thermal": 0.9, "gpu_idle": 0.1}),
        "91 degrees Celsius",
    ),
    "power-throttling": Machine(
        "warning",
        readings({"sm_clock_mhz": 1400}, limits={"power_limit_w": 500}, throttled={"sw_power_cap": 1}),
        "Power",
    ),
    "slow-pcie": Machine(
        "warning",
        readings({"pcie_width": 4, "pcie_generation": 3}),
        "x4 of generation 3",
        steps(lambda job: job.copy(20 * MIB, pinned=True)),
    ),
    "nvlink-down": Machine("warning", readings({"nvlinks": 17}), "1 NVLinks of the GPU are down"),
    "loading-waits-for-storage": Machine(
        "warning",
        readings(rates={"storage_wait_ns": 8e8, "workers_disk_read_bytes": 148e6}),
        "150.0 MB/s are read",
        waits_for_data(),
    ),
    "loading-waits-for-network": Machine(
        "warning", {**readings(rates={"network_received_bytes": 6e7}), **SLEEPS}, "60.0 MB/s", waits_for_data()
    ),
    "gpu-errors": Machine("critical", readings(totals={"ecc_uncorrected": 1}), "1 uncorrected errors"),
    "shared-gpu": Machine("warning", readings({"gpu_processes": 2}), "2 processes"),
    "starved-host": Machine("critical", readings(rates={"waited_for_core_ns": 4e8}), "40.0 % of the time"),
    "crowded-machine": Machine(
        "critical", readings(rates={"waited_for_core_ns": 4e8, "allowed_cores_cpu_ns": 7.9e9}), "86.2 % of the cores"
    ),
    "far-from-gpu": Machine("info", readings({"far_from_gpu": 1}, limits={"cores_near_gpu": 0}), "0 of the cores"),
    "swapping": Machine("critical", readings(totals={"swap_bytes": 4e9}), "200.0 MB/s"),
}
