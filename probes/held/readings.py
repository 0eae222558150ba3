"""Memory, descriptors and threads of this process and its children, from the kernel and torch's allocator.

Memory of the host is that of anonymous pages, swapped ones included: files that are mapped are page cache, and shared
memory is counted by itself.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from ..guard import quietly
from ..limits.room import free_memory_bytes

_MOST_CHILDREN = 64
_KIB = 1024
_OF_STATUS = {"VmRSS:": "rss", "RssAnon:": "anonymous", "VmSwap:": "swapped", "RssShmem:": "shared"}


def of_this_process() -> dict[str, int]:
    """Bytes of the host and the device, open descriptors and threads of this process, as far as they are known.

    `device` is the most that the tensors took on the device so far, `allocated` and `reserved` what they take now.
    """
    found = _of_status("self")
    found["host"] = found.pop("anonymous", 0) + found.pop("swapped", 0)
    found["descriptors"] = _descriptors()
    found.update(quietly(_of_device) or {})  # type: ignore[call-overload]
    return {name: count for name, count in found.items() if count or name not in ("host", "descriptors")}


def of_children(thread: int) -> dict[str, int]:
    """The number of processes that this thread has started, the bytes that each has for itself, the same with the
    pages that it shares since the fork, and the least of their ids, which separates new workers from old ones.
    """
    with open(f"/proc/self/task/{thread}/children", encoding="ascii") as file:
        children = file.read().split()
    found = {"processes": len(children)}
    own = [one for child in children[:_MOST_CHILDREN] if (one := _of_child(child)) is not None]
    if own:
        found["workers"], found["workers_anonymous"] = (sum(each) for each in zip(*own, strict=True))
        found["first_worker"], found["workers_read"] = min(map(int, children)), len(own)
    return found


def room() -> dict[str, int]:
    """Bytes of the host's memory that are left to this process."""
    left = free_memory_bytes(with_page_cache=True)
    return {} if left is None else {"left": left}


def limits() -> dict[str, int]:
    """The most descriptors that this process may open, and the memory of its device."""
    import resource

    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    found = {} if most == resource.RLIM_INFINITY else {"most_descriptors": most}
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        found["device_total"] = int(torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory)
    return found


def _of_status(process: str) -> dict[str, int]:
    found = {}
    with open(f"/proc/{process}/status", encoding="ascii", errors="replace") as file:
        for line in file:
            name, *rest = line.split()
            if name in _OF_STATUS:
                found[_OF_STATUS[name]] = int(rest[0]) * _KIB
            elif name == "Threads:":
                found["threads"] = int(rest[0])
    return found


def _descriptors() -> int:
    """The number of open descriptors; kernels before 6.2 do not give it as the size of the folder."""
    return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd")) - 1


def _of_device() -> dict[str, int]:
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return {}
    told = torch.cuda.memory_stats_as_nested_dict()
    allocated, reserved = told["allocated_bytes"]["all"], told["reserved_bytes"]["all"]
    now = {"allocated": allocated["current"], "reserved": reserved["current"]}
    return {"device": int(allocated["peak"]), **{name: int(count) for name, count in now.items()}}


def _of_child(process: str) -> tuple[int, int] | None:
    """Bytes that are the child's alone, and the same with those that it shares with its parent since the fork."""
    try:
        with open(f"/proc/{process}/smaps_rollup", encoding="ascii") as file:
            rows = {row[0]: int(row[1]) * _KIB for row in map(str.split, file) if row[-1] == "kB"}
    except OSError:  # it has ended
        return None
    swapped = rows.get("SwapPss:", 0)
    return rows.get("Private_Dirty:", 0) + swapped, rows.get("Anonymous:", 0) + swapped
