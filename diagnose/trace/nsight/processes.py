"""The processes of an export that are ranks: those that use a GPU, by device and then by process id."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from diagnose.arrays import ABSENT, Ints, Mask
from diagnose.trace.nsight.database import MISSING, Database

KERNELS, GRAPHS = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
COPIES, FILLS = "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"
CALLS, RANGES = "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"

_THREAD_BITS = 24
_THREADS = (1 << _THREAD_BITS) - 1
_PIDS = (1 << 22) - 1  # of Linux
_WORKS = 0.01  # of the time of the busiest process: a process with less hardly uses the GPU
_NAMES, _LONGEST_NAME = "PROCESSES", 60
_MOST_NS = 1 << 50  # of one activity, as far as it counts here


@dataclass(frozen=True)
class ExportedProcesses:
    """The ranks of an export. The upper bits of serialized ids identify machine and process.

    Attributes:
        keys: keys of the processes that are ranks, in the order of rank.
        of_device: the process of each device's activities, if these do not name their process.
    """

    keys: tuple[int, ...]
    of_device: dict[int, int]

    def owners(self, ids: Ints, device: Ints | None = None) -> Ints:
        """The process of each row by its globalPid or globalTid, of an activity else by its device; else MISSING."""
        keys = np.where(ids == MISSING, MISSING, ids >> _THREAD_BITS)
        for number, key in self.of_device.items() if device is not None else ():
            keys[(keys == MISSING) & (device == number)] = key
        return keys

    def ranks(self, owners: Ints) -> Ints:
        """The rank of each process, ABSENT if it is none."""
        if not self.keys:
            return np.full(len(owners), ABSENT, np.int64)
        keys = np.array(self.keys, np.int64)
        in_order = np.argsort(keys)
        at = in_order[np.minimum(np.searchsorted(keys, owners, sorter=in_order), len(keys) - 1)]
        return np.where(keys[at] == owners, at, ABSENT)


def pids(ids: Ints) -> Ints:
    """The process ids in serialized ids, 0 if there is none."""
    return np.where(ids == MISSING, 0, (ids >> _THREAD_BITS) & _PIDS)


def tids(ids: Ints) -> Ints:
    """The thread ids in serialized ids."""
    return np.where(ids == MISSING, ABSENT, ids & _THREADS)


def processes_of(database: Database) -> ExportedProcesses:
    """The ranks: the processes with GPU activity, else those that call CUDA, else those with ranges."""
    busy: dict[tuple[int, int], int] = {}
    for table in (KERNELS, GRAPHS, COPIES, FILLS):
        for rows in database.integers(table, ("globalPid", "deviceId", "start", "end")):
            _add(busy, rows)
    of_device = _devices_without_a_process(database, {device for key, device in busy if key == MISSING})
    spent: dict[int, list[tuple[int, int]]] = {}
    for (key, device), ns in busy.items():
        spent.setdefault(of_device[device] if key == MISSING else key, []).append((ns, device))
    if not spent:
        return ExportedProcesses(tuple(_callers(database)), of_device)
    total = {key: sum(ns for ns, _ in each) for key, each in spent.items()}
    ranks = [key for key in spent if total[key] >= _WORKS * max(total.values())]
    return ExportedProcesses(tuple(sorted(ranks, key=lambda key: (max(spent[key])[1], key))), of_device)


def described(database: Database, processes: ExportedProcesses) -> list[str]:
    """The ranks in words, each with the number of its process, its name and its GPU, as far as they are known."""
    device: dict[int, int] = {}
    for table in (KERNELS, GRAPHS, COPIES, FILLS):
        for rows in database.integers(table, ("globalPid", "deviceId")):
            pairs = np.stack((processes.owners(rows[:, 0], rows[:, 1]), rows[:, 1]), axis=1)
            for owner, number in np.unique(pairs, axis=0).tolist():
                device.setdefault(owner, number)
    names: dict[int, str] = {}
    for rows, told in database.texts(_NAMES, ("globalPid",), "name"):
        names |= {key: name for key, name in zip((rows[:, 0] >> _THREAD_BITS).tolist(), told, strict=True) if name}
    return [_in_words(key, names.get(key), device.get(key, MISSING)) for key in processes.keys]


def _in_words(key: int, name: str | None, device: int) -> str:
    """A process in words; "" if its key was made up for its device."""
    if key < 0:
        return ""
    of = f" ({name[:_LONGEST_NAME]})" if name else ""
    return f"process {key & _PIDS}{of}{f' on GPU {device}' if device >= 0 else ''}"


def _add(busy: dict[tuple[int, int], int], rows: Ints) -> None:
    ids, device, begin, end = rows.T
    keys = np.where(ids == MISSING, MISSING, ids >> _THREAD_BITS)
    timed: Mask = (begin != MISSING) & (end != MISSING) & (end >= begin) & (begin >= 0)
    ns = np.where(timed, np.minimum(np.where(timed, end - begin, 0), _MOST_NS), 0).astype(np.float64)
    pairs, which = np.unique(np.stack((keys, device), axis=1), axis=0, return_inverse=True)
    for (key, number), each in zip(pairs.tolist(), np.bincount(which.ravel(), weights=ns).tolist(), strict=True):
        busy[key, number] = busy.get((key, number), 0) + int(each)


def _devices_without_a_process(database: Database, devices: set[int]) -> dict[int, int]:
    """The processes of devices whose activities name none: the only caller of CUDA or, of as many, the one at its
    place.
    """
    callers = list(_callers(database)) if devices else []
    if len(callers) == 1:
        return dict.fromkeys(devices, callers[0])
    if len(callers) == len(devices):
        return dict(zip(sorted(devices), callers, strict=True))
    return {device: -at - 2 for at, device in enumerate(sorted(devices))}


def _callers(database: Database) -> Iterator[int]:
    for table in (CALLS, RANGES):
        keys: set[int] = set()
        for rows in database.integers(table, ("globalTid",)):
            keys.update(np.unique(rows[rows != MISSING] >> _THREAD_BITS).tolist())
        if keys:
            yield from sorted(keys)
            return
