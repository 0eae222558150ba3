"""Clocks, power and throttle reasons from the driver's own library, through ctypes: no package is needed for it."""

from __future__ import annotations

import ctypes
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
_SM, _MEMORY = 1, 2  # clock domains
THROTTLE = {
    0x1: "gpu_idle",
    0x2: "applications_clocks",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
    0x100: "display_clocks",
}


def driver_version() -> str:
    """The driver's version.

    Raises:
        OSError: no NVML on this machine, or it refuses.
    """
    text = ctypes.create_string_buffer(96)
    _check(_library(), "nvmlSystemGetDriverVersion", text, ctypes.c_uint(96))
    return text.value.decode()


def driver_cuda() -> str:
    """The newest CUDA that the driver serves, such as "12.4".

    Raises:
        OSError: no NVML on this machine, or it refuses.
    """
    number = ctypes.c_int()
    _check(_library(), "nvmlSystemGetCudaDriverVersion_v2", ctypes.byref(number))
    return f"{number.value // 1000}.{number.value % 1000 // 10}"


def address_of(properties: Any) -> str:
    """Address of the device on the PCI bus, such as "0000:3b:00.0"; "" if its `properties` in torch lack it."""
    parts: list[Any] = [getattr(properties, f"pci_{of}_id", None) for of in ("domain", "bus", "device")]
    return "" if None in parts else "{:04x}:{:02x}:{:02x}.0".format(*parts)


def handle_of(uuid: str) -> tuple[Any, ctypes.c_void_p]:
    """The library, and its handle of the device.

    Raises:
        OSError: no NVML on this machine, or it does not know the device.
    """
    library = _library()
    handle = ctypes.c_void_p()
    name = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
    _check(library, "nvmlDeviceGetHandleByUUID", name.encode(), ctypes.byref(handle))
    return library, handle


def device_facts(uuid: str) -> dict[str, object]:
    """Momentary clocks in MHz, power in W, temperature in Celsius and throttle reasons of the device.

    A value is null if the driver refuses it, or if its library lacks the function.

    Raises:
        OSError: no NVML on this machine, or it does not know the device.
    """
    library, handle = handle_of(uuid)

    def number(function: str, *leading: int) -> int | None:
        value = ctypes.c_uint()
        told = answers(library, function, handle, *map(ctypes.c_uint, leading), ctypes.byref(value))
        return value.value if told else None

    return {
        "sm_clock_mhz": number("nvmlDeviceGetClockInfo", _SM),
        "sm_clock_max_mhz": number("nvmlDeviceGetMaxClockInfo", _SM),
        "memory_clock_mhz": number("nvmlDeviceGetClockInfo", _MEMORY),
        "memory_clock_max_mhz": number("nvmlDeviceGetMaxClockInfo", _MEMORY),
        "memory_bus_bits": number("nvmlDeviceGetMemoryBusWidth"),
        "temperature_c": number("nvmlDeviceGetTemperature", 0),
        "power_w": _watts(number("nvmlDeviceGetPowerUsage")),
        "power_limit_w": _watts(number("nvmlDeviceGetEnforcedPowerLimit")),
        "throttle_reasons": throttle_reasons(library, handle),
    }


def throttle_reasons(library: Any, handle: ctypes.c_void_p) -> list[str] | None:
    """Reasons why the clock is no higher; None if the driver gives none."""
    bits = ctypes.c_ulonglong()
    if not answers(library, "nvmlDeviceGetCurrentClocksThrottleReasons", handle, ctypes.byref(bits)):
        return None
    return [reason for bit, reason in THROTTLE.items() if bits.value & bit]


def _library() -> Any:
    library = ctypes.CDLL(LIBRARY)
    _check(library, "nvmlInit_v2")
    return library


def answers(library: Any, function: str, *arguments: Any) -> bool:
    """Whether the driver's library has the function, and its call succeeds."""
    return _status(library, function, *arguments) == 0


def _status(library: Any, function: str, *arguments: Any) -> int | None:
    call = getattr(library, function, None)
    return None if call is None else int(call(*arguments))


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1000


def _check(library: Any, function: str, *arguments: Any) -> None:
    status = _status(library, function, *arguments)
    if status is None:
        raise OSError(f"NVML has no {function}")
    if status:
        raise OSError(f"NVML status {status}")
