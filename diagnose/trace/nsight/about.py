"""An export's data about its machine and itself, under the names of a torch trace's top-level keys."""

from typing import Any

from diagnose.arrays import Ints
from diagnose.trace.columns import NSIGHT
from diagnose.trace.nsight.database import MISSING, Database

_DEVICES = "TARGET_INFO_GPU"
_OF_DEVICE = {"totalGlobalMem": "totalMemory", "numSms": "smCount", "computeMajor": "computeMajor"}
_MOST = {"totalGlobalMem": 1 << 50, "numSms": 1 << 16, "computeMajor": 1 << 10}
_MOST_DEVICES = 1024
_START, _EPOCH = "TARGET_INFO_SESSION_START_TIME", "utcEpochNs"
_LATEST_NS = 1 << 62


def metadata_of(database: Database) -> dict[str, Any]:
    """The devices, when time 0 was, and that Nsight Systems recorded it."""
    metadata: dict[str, Any] = {NSIGHT: True}
    if devices := _devices(database):
        metadata["deviceProperties"] = devices
    epochs = [int(ns) for rows in database.integers(_START, (_EPOCH,)) for ns in rows[:, 0] if 0 < ns < _LATEST_NS]
    if len(epochs) == 1:  # an export of several machines has several
        metadata["baseTimeNanoseconds"] = epochs[0]
    return metadata


def _devices(database: Database) -> list[dict[str, Any]]:
    """The GPUs in the order of the table; a device id counts CUDA's devices if the table has their numbers."""
    found: list[dict[str, Any]] = []
    wanted = ("id", "cuDevice", *_OF_DEVICE.values())
    for rows, told in database.texts(_DEVICES, wanted, "name"):
        for row, name in zip(rows, told, strict=True):
            if name and len(found) < _MOST_DEVICES:
                found.append(_device(row, name))
    return found


def _device(row: Ints, name: str) -> dict[str, Any]:
    number, of_cuda, *sizes = row.tolist()
    device: dict[str, Any] = {"name": name}
    if (known := number if of_cuda == MISSING else of_cuda) != MISSING and 0 <= known < 1 << 16:
        device["id"] = known
    for key, value in zip(_OF_DEVICE, sizes, strict=True):
        if 0 < value <= _MOST[key]:
            device[key] = value
    return device
