"""A driver's library that answers as it is told, called through ctypes as the real one is."""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

REFUSED, TOO_SHORT = 3, 7

USUAL: Mapping[str, int] = {
    "ClockInfo1": 1155,
    "ClockInfo2": 2619,
    "MaxClockInfo1": 1980,
    "MaxClockInfo2": 2619,
    "PowerUsage": 402_500,
    "EnforcedPowerLimit": 500_000,
    "PowerManagementDefaultLimit": 700_000,
    "Temperature0": 88,
    "CurrPcieLinkGeneration": 3,
    "CurrPcieLinkWidth": 4,
    "MaxPcieLinkGeneration": 5,
    "MaxPcieLinkWidth": 16,
    "PcieThroughput0": 10,
    "PcieThroughput1": 2000,
    "NvLinkState0": 1,
    "NvLinkState1": 1,
    "NvLinkState2": 0,
    "NvLinkErrorCounter0": 1,
    "NvLinkErrorCounter1": 1,
    "FieldValues138": 500,
    "FieldValues139": 700,
    "FieldValues90": 26_562,
    "TotalEccErrors0": 7,
    "TotalEccErrors1": 0,
    "PcieReplayCounter": 12,
    "CurrentClocksThrottleReasons": 0x20 | 0x4,
}


class FakeDriver:
    """Knows one device; `answers` are by function, without "nvmlDeviceGet", and leading number; others are refused.

    Of the host's GPUs it knows how many of their NVLinks are up.
    """

    def __init__(self, processes: int = 2, nvlinks_of_host: Sequence[int] = (2, 3), **answers: int) -> None:
        self.answers = {**USUAL, **answers}
        self.nvlinks_of_host = nvlinks_of_host
        self.processes = processes
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., int]:
        if not name.startswith("nvml"):
            raise AttributeError(name)
        return lambda *arguments: self._call(name, *arguments)

    def _call(self, name: str, *arguments: Any) -> int:
        self.calls.append(name)
        if name in ("nvmlInit_v2", "nvmlDeviceGetHandleByUUID"):
            return 0
        if name == "nvmlDeviceGetComputeRunningProcesses_v3":
            arguments[1]._obj.value = self.processes
            return TOO_SHORT
        if name == "nvmlDeviceGetCount_v2":
            arguments[0]._obj.value = len(self.nvlinks_of_host)
            return 0
        if name == "nvmlDeviceGetHandleByIndex_v2":
            arguments[1]._obj.value = arguments[0] + 1
            return 0
        if name == "nvmlDeviceGetNvLinkState" and arguments[0].value:
            arguments[2]._obj.value = arguments[1].value < self.nvlinks_of_host[arguments[0].value - 1]
            return 0
        if name == "nvmlDeviceGetFieldValues":
            asked = arguments[2]._obj
            asked.value = self.answers.get(f"FieldValues{asked.field}", 0)
            asked.status = REFUSED if not asked.value else 0
            return 0
        if name == "nvmlDeviceGetRemappedRows":
            for place, rows in zip(arguments[1:], (3, 1, 1, 0), strict=True):
                place._obj.value = rows
            return 0
        numbers = [argument.value for argument in arguments[1:-1] if isinstance(argument, ctypes.c_uint)]
        answer = self.answers.get(name.removeprefix("nvmlDeviceGet") + "".join(map(str, numbers[:1])))
        if answer is None:
            return REFUSED
        arguments[-1]._obj.value = answer
        return 0
