"""The room that the machine and the job's collectives leave for a capture; read in a second thread, as files are."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from ..bundle.disk import free_bytes
from ..guard import quietly
from ..machine.cores import cgroup_folders, numbers_in
from .capture_size import CaptureLimits

STALL_SHARE = 0.1  # of the least timeout of a collective
MEMORY_SHARE, DISK_SHARE = 4, 2  # a quarter, a half of what is free
_TIMEOUTS_S = {"nccl": 600.0}  # torch's defaults, if a group does not show its own: constants.py of torch.distributed
_DEFAULT_TIMEOUT_S = 1800.0
_LIMITS_OF_MEMORY = (
    ("memory.max", "memory.current", "sys/fs/cgroup", ""),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "sys/fs/cgroup/memory", "memory"),
)


def limits(budget_bytes: int, folder: Path, ranks: int, timeout_s: float | None) -> CaptureLimits:
    """Limits of a capture into `folder` by `ranks` ranks of this host, whose collectives give up after `timeout_s`."""
    memory, disk = quietly(free_memory_bytes), quietly(lambda: free_bytes(folder))
    return CaptureLimits(
        budget_bytes,
        memory // MEMORY_SHARE if isinstance(memory, int) else None,
        disk // DISK_SHARE if isinstance(disk, int) else None,
        timeout_s * STALL_SHARE if timeout_s is not None else None,
        max(ranks, 1),
    )


def free_memory_bytes(root: Path = Path("/"), *, with_page_cache: bool = False) -> int | None:
    """Memory that processes may still take: of the host, or of the cgroup if it has less; None if unknown.

    Args:
        root: holds proc and sys.
        with_page_cache: count the files that the cgroup caches and the kernel gives back first, as of the host.
    """
    return min((*_of_host(root), *_of_cgroups(root, with_page_cache)), default=None)


def _of_host(root: Path) -> Iterator[int]:
    meminfo = root / "proc/meminfo"
    found = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo.read_text() if meminfo.is_file() else "", re.MULTILINE)
    if found:
        yield int(found[1]) * 1024


def _of_cgroups(root: Path, with_page_cache: bool) -> Iterator[int]:
    if not (root / "proc/self/cgroup").is_file():
        return
    for most, taken, top, controller in _LIMITS_OF_MEMORY:
        for folder in cgroup_folders(root, root / top, partial(_is_listed, controller)):
            both = numbers_in(folder / most) + numbers_in(folder / taken)
            if len(both) == 2 and both[0] > 0:
                yield max(both[0] - both[1] + (_page_cache(folder) if with_page_cache else 0), 0)


def _page_cache(folder: Path) -> int:
    stat = folder / "memory.stat"
    found = re.findall(r"^(?:total_)?inactive_file (\d+)", stat.read_text() if stat.is_file() else "", re.MULTILINE)
    return max(map(int, found), default=0)  # the total has that of the groups below it


def _is_listed(controller: str, names: str) -> bool:
    return controller in names.split(",")


def collective_timeout_s() -> float | None:
    """The least timeout of the process groups, in seconds; the backend's default if none can be read.

    None without a process group.
    """
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    groups = list(distributed.distributed_c10d._world.pg_map)
    told = [each for group in groups if isinstance(each := quietly(partial(_timeout_s, group)), float)]
    default = _TIMEOUTS_S.get(str(distributed.get_backend()), _DEFAULT_TIMEOUT_S)
    return min(told, default=default)


def _timeout_s(group: Any) -> float:
    import torch

    device = "cuda" if "nccl" in str(group.name()) else "cpu"
    return float(group._get_backend(torch.device(device)).options._timeout.total_seconds())
