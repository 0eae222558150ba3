"""Readings of a working GPU from the driver's own library: clocks, power, temperature, links and errors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from .nvml import answers, handle_of, throttle_reasons

_SM, _MEMORY = 1, 2  # clock domains
_CORRECTED, _UNCORRECTED, _SINCE_BOOT = 0, 1, 0
_SENT, _RECEIVED = 0, 1
_LINKS = 18  # that a GPU has at most
_SHORT = 7  # NVML_ERROR_INSUFFICIENT_SIZE, which comes with the needed number
_NVLINK_SENT, _NVLINK_RECEIVED, _NVLINK_MB_PER_S = 138, 139, 90  # fields of the driver
_ALL_LINKS = 0xFFFFFFFF
_LINK_ERRORS = (0, 1, 2)  # of a link: replays, recoveries, damaged packets of the flow control
_MOST_GPUS = 64  # of a host
_NOTHING = 0
IDLE = "gpu_idle"


class _Field(ctypes.Structure):
    """A request to `nvmlDeviceGetFieldValues` and its answer; only whole numbers are requested."""

    _fields_ = [
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("read_at_us", ctypes.c_longlong),
        ("took_us", ctypes.c_longlong),
        ("kind", ctypes.c_uint),
        ("status", ctypes.c_uint),
        ("value", ctypes.c_ulonglong),
    ]


class GpuReadings:
    """Readings of the GPU with `uuid`; readings that the driver lacks are left out.

    Raises:
        OSError: no NVML on this machine, or it does not know the device.
    """

    def __init__(self, uuid: str) -> None:
        self._library, self._handle = handle_of(uuid)

    def gauges(self) -> dict[str, float]:
        """Momentary readings:

        MHz, W, degrees Celsius, per cent; the clock of an idle GPU means nothing and is left out.
        """
        read = {
            "sm_clock_mhz": self._number("nvmlDeviceGetClockInfo", _SM),
            "memory_clock_mhz": self._number("nvmlDeviceGetClockInfo", _MEMORY),
            "power_w": _thousandth(self._number("nvmlDeviceGetPowerUsage")),
            "temperature_c": self._number("nvmlDeviceGetTemperature", 0),
            "gpu_processes": self._processes(),
        }
        if IDLE in (self.reasons() or ()):
            del read["sm_clock_mhz"]
        return _known(read)

    def links(self) -> dict[str, float]:
        """Generation and width of the PCIe link, and the number of NVLinks that are up."""
        return _known(
            {
                "pcie_generation": self._number("nvmlDeviceGetCurrPcieLinkGeneration"),
                "pcie_width": self._number("nvmlDeviceGetCurrPcieLinkWidth"),
                "nvlinks": self._links(),
            }
        )

    def traffic(self) -> dict[str, float]:
        """Bytes per second over PCIe; each takes the driver some 20 ms."""
        kib = {
            "pcie_sent_bytes_per_s": self._number("nvmlDeviceGetPcieThroughput", _SENT),
            "pcie_received_bytes_per_s": self._number("nvmlDeviceGetPcieThroughput", _RECEIVED),
        }
        return {name: value * 1024 for name, value in _known(kib).items()}

    def errors(self) -> dict[str, float]:
        """Counters of errors: of the memory, rows replaced for them, errors and repeats of the links."""
        rows = [ctypes.c_uint() for _ in range(4)]
        told = self._ask("nvmlDeviceGetRemappedRows", *map(ctypes.byref, rows))
        return _known(
            {
                "ecc_corrected": self._long("nvmlDeviceGetTotalEccErrors", _CORRECTED, _SINCE_BOOT),
                "ecc_uncorrected": self._long("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _SINCE_BOOT),
                "remapped_rows": rows[0].value + rows[1].value if told else None,
                "pcie_replays": self._number("nvmlDeviceGetPcieReplayCounter"),
                "nvlink_errors": self._link_errors(),
            }
        )

    def moved(self) -> dict[str, float]:
        """Bytes over the NVLinks so far."""
        return _known(
            {
                "nvlink_sent_bytes": _kib(self._field(_NVLINK_SENT, _ALL_LINKS)),
                "nvlink_received_bytes": _kib(self._field(_NVLINK_RECEIVED, _ALL_LINKS)),
            }
        )

    def limits(self) -> dict[str, float]:
        """Readings that stay constant: the maxima of clock and links, the power limit and its default."""
        rows = [ctypes.c_uint() for _ in range(4)]
        told = self._ask("nvmlDeviceGetRemappedRows", *map(ctypes.byref, rows))
        return _known(
            {
                "sm_clock_max_mhz": self._number("nvmlDeviceGetMaxClockInfo", _SM),
                "memory_clock_max_mhz": self._number("nvmlDeviceGetMaxClockInfo", _MEMORY),
                "power_limit_w": _thousandth(self._number("nvmlDeviceGetEnforcedPowerLimit")),
                "power_limit_default_w": _thousandth(self._number("nvmlDeviceGetPowerManagementDefaultLimit")),
                "pcie_generation_max": self._number("nvmlDeviceGetMaxPcieLinkGeneration"),
                "pcie_width_max": self._number("nvmlDeviceGetMaxPcieLinkWidth"),
                "remap_pending": rows[2].value if told else None,
                "remap_failed": rows[3].value if told else None,
                "nvlink_mb_per_s": self._field(_NVLINK_MB_PER_S),
                "nvlinks_of_host": self._most_links_of_host(),
            }
        )

    def reasons(self) -> list[str] | None:
        """Reasons why the clock is no higher; None if the driver gives none."""
        return throttle_reasons(self._library, self._handle)

    def _number(self, function: str, *leading: int, of: ctypes.c_void_p | None = None) -> float | None:
        value = ctypes.c_uint()
        told = self._ask(function, *map(ctypes.c_uint, leading), ctypes.byref(value), of=of)
        return value.value if told else None

    def _long(self, function: str, *leading: int) -> float | None:
        value = ctypes.c_ulonglong()
        return value.value if self._ask(function, *map(ctypes.c_uint, leading), ctypes.byref(value)) else None

    def _field(self, field: int, scope: int = 0) -> float | None:
        asked = _Field(field=field, scope=scope)
        told = self._ask("nvmlDeviceGetFieldValues", 1, ctypes.byref(asked)) and not asked.status
        return asked.value if told else None

    def _links(self, of: ctypes.c_void_p | None = None) -> float | None:
        """Number of NVLinks that are up; None if the GPU has none."""
        up = [self._number("nvmlDeviceGetNvLinkState", link, of=of) for link in range(_LINKS)]
        return sum(map(int, _known(dict(enumerate(up))).values())) if any(state is not None for state in up) else None

    def _link_errors(self) -> float | None:
        """Errors of all NVLinks together; None if the GPU has none, or does not count them."""
        asked = [(link, kind) for link in range(_LINKS) for kind in _LINK_ERRORS]
        counts = _known({each: self._long("nvmlDeviceGetNvLinkErrorCounter", *each) for each in asked})
        return sum(counts.values()) if counts else None

    def _most_links_of_host(self) -> float | None:
        """The largest number of NVLinks up on one visible GPU; None if no GPU has any."""
        count = ctypes.c_uint()
        if not answers(self._library, "nvmlDeviceGetCount_v2", ctypes.byref(count)):
            return None
        handles = [ctypes.c_void_p() for _ in range(min(count.value, _MOST_GPUS))]
        found = [
            self._links(handle)
            for number, handle in enumerate(handles)
            if answers(self._library, "nvmlDeviceGetHandleByIndex_v2", number, ctypes.byref(handle))
        ]
        return max((links for links in found if links is not None), default=None)

    def _processes(self) -> float | None:
        count = ctypes.c_uint(0)
        call: Callable[..., int] | None = getattr(self._library, "nvmlDeviceGetComputeRunningProcesses_v3", None)
        if call is None or call(self._handle, ctypes.byref(count), None) not in (_NOTHING, _SHORT):
            return None
        return count.value

    def _ask(self, function: str, *arguments: Any, of: ctypes.c_void_p | None = None) -> bool:
        return answers(self._library, function, self._handle if of is None else of, *arguments)


def _thousandth(value: float | None) -> float | None:
    return None if value is None else value / 1000


def _kib(value: float | None) -> float | None:
    return None if value is None else value * 1024


def _known(read: dict[Any, float | None]) -> dict[Any, float]:
    return {name: value for name, value in read.items() if value is not None}
