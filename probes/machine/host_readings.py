"""Readings of the host from the kernel while the job runs: its cores, waits for one, memory, disk, network.

Everything is read from /proc and /sys, which other systems than Linux do not have: what cannot be read is left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from .schedstat import schedstat

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 10_000_000
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_KIB = 1024
_MOST_WORKERS = 64
_PRESSURE_ON = {"cpu": "cpu_pressure_ns", "memory": "memory_pressure_ns", "io": "storage_wait_ns"}
_STAT_CPU = (11, 12)  # user and system time, counted from behind the name of the process
_STAT_FAULTS = 9
_STAT_CORE = 36


class HostReadings:
    """Readings of this process on this host.

    Args:
        thread: the kernel's number of the training thread.
        root: the folder of /proc and /sys.
    """

    def __init__(self, thread: int, root: Path = Path("/")) -> None:
        self._proc, self._sys, self._thread = root / "proc", root / "sys", thread
        self._allowed = _allowed()
        self._near: frozenset[int] = frozenset()

    def near(self, pci_address: str) -> None:
        """Set the job's GPU by its address: the cores near it are those of its NUMA node."""
        device = self._sys / "bus/pci/devices" / pci_address
        self._near = frozenset(_cores(_text(device / "local_cpulist")))

    def limits(self) -> dict[str, float]:
        """Readings that stay constant: cores of the host, those that this process may use, and those near the GPU."""
        nodes = len(list((self._sys / "devices/system/node").glob("node[0-9]*")))
        near = {"cores_near_gpu": len(self._near & self._allowed)} if self._near else {}
        return {"cores": os.cpu_count() or 0, "cores_allowed": len(self._allowed), "numa_nodes": nodes, **near}

    def gauges(self) -> dict[str, float]:
        """Momentary readings: run queue, memory in bytes, whether this core is on another node than the GPU."""
        memory = dict(_rows(_text(self._proc / "meminfo")))
        running = next((row[1] for row in _lines(self._proc / "stat") if row[0] == "procs_running"), None)
        read: dict[str, float] = {} if running is None else {"run_queue": float(running)}
        for name, row in (("page_cache_bytes", "Cached:"), ("available_bytes", "MemAvailable:")):
            if row in memory:
                read[name] = memory[row] * _KIB
        if "SwapTotal:" in memory and "SwapFree:" in memory:
            read["swapped_bytes"] = (memory["SwapTotal:"] - memory["SwapFree:"]) * _KIB
        core = self._core()
        if self._near and core is not None:
            read["far_from_gpu"] = float(core not in self._near)
        return read

    def counters(self) -> dict[str, float]:
        """Counters since the start: nanoseconds of CPU time and of waiting for a core, bytes, pages."""
        of_host = (self._of_cores, self._of_quota, self._of_pressure, self._of_pages, self._of_page_cache)
        read: dict[str, float] = {}
        of_job = (self._of_job, self._of_workers, self._of_thread, self._of_disk, self._of_network)
        for group in (*of_host, *of_job):
            read.update(_quietly(group))
        return read

    def _of_cores(self) -> dict[str, float]:
        busy, stolen = 0.0, list[float]()
        for name, *times in _lines(self._proc / "stat"):
            if name.startswith("cpu") and name[3:].isdecimal() and int(name[3:]) in self._allowed:
                ticks = list(map(int, times[:8]))
                busy += (sum(ticks) - ticks[3] - ticks[4]) * _TICK_NS  # except idle, and waiting for a disk
                stolen += [float(each * _TICK_NS) for each in ticks[7:]]
        return {"allowed_cores_cpu_ns": busy, **({"stolen_ns": sum(stolen)} if stolen else {})}

    def _of_job(self) -> dict[str, float]:
        return {"process_cpu_ns": _cpu_ns(_text(self._proc / f"{os.getpid()}/stat"))}

    def _of_workers(self) -> dict[str, float]:
        """CPU time of the loader's workers, bytes that they read, and pages of theirs that had to come from a disk."""
        workers = _text(self._proc / f"{os.getpid()}/task/{self._thread}/children").split()[:_MOST_WORKERS]
        stats = [_text(self._proc / worker / "stat") for worker in workers]
        moved = [dict(_rows(_text(self._proc / worker / "io"))).get("read_bytes:", 0.0) for worker in workers]
        fields = [_behind_name(stat) for stat in stats]
        faults = sum(float(each[_STAT_FAULTS]) for each in fields if len(each) > _STAT_FAULTS)
        return {
            "workers_cpu_ns": sum(map(_cpu_ns, stats)),
            "workers_disk_read_bytes": sum(moved),
            "workers_major_faults": faults,
        }

    def _of_thread(self) -> dict[str, float]:
        return {"waited_for_core_ns": float(schedstat(str(self._proc / f"self/task/{self._thread}"))[1])}

    def _of_quota(self) -> dict[str, float]:
        of_cgroup = dict(_rows(_text(self._sys / "fs/cgroup/cpu.stat")))
        return {"throttled_ns": of_cgroup["throttled_usec"] * 1000} if "throttled_usec" in of_cgroup else {}

    def _of_pressure(self) -> dict[str, float]:
        """Time in which something waited for a core, for memory or for a disk: in the cgroup, else on the host."""
        read: dict[str, float] = {}
        for on, name in _PRESSURE_ON.items():
            text = _text(self._sys / f"fs/cgroup/{on}.pressure") or _text(self._proc / "pressure" / on)
            kind, _, rest = text.partition(" ")
            waited_us = rest.partition("total=")[2].split()[:1]
            if kind == "some" and waited_us:
                read[name] = float(int(waited_us[0]) * 1000)
        return read

    def _of_pages(self) -> dict[str, float]:
        pages = dict(_rows(_text(self._proc / "vmstat")))
        moved = [pages[name] for name in ("pswpin", "pswpout") if name in pages]
        return {"swap_bytes": sum(moved) * _PAGE_BYTES} if moved else {}

    def _of_disk(self) -> dict[str, float]:
        moved = dict(_rows(_text(self._proc / "self/io")))
        names = {"disk_read_bytes": "read_bytes:", "disk_written_bytes": "write_bytes:"}
        return {name: moved[row] for name, row in names.items() if row in moved}

    def _of_page_cache(self) -> dict[str, float]:
        """Bytes read again that the page cache had dropped: of the cgroup, else of the host."""
        pages = dict(_rows(_text(self._sys / "fs/cgroup/memory.stat") or _text(self._proc / "vmstat")))
        again = pages.get("workingset_refault_file")
        return {} if again is None else {"read_again_bytes": again * _PAGE_BYTES}

    def _of_network(self) -> dict[str, float]:
        """Bytes over network cards that are devices: a bond, a bridge or a VLAN above them counts the same bytes again.

        If none is a device, as in a container, all but the loopback count.
        """
        rows = [line.replace(":", " ").split() for line in _text(self._proc / "self/net/dev").splitlines()[2:]]
        cards = [row for row in rows if len(row) > 9 and row[0] != "lo"]
        cards = [row for row in cards if (self._sys / "class/net" / row[0] / "device").exists()] or cards
        sums = {"network_received_bytes": 1, "network_sent_bytes": 9}
        return {name: float(sum(int(row[column]) for row in cards)) for name, column in sums.items()} if cards else {}

    def _core(self) -> int | None:
        fields = _behind_name(_text(self._proc / f"self/task/{self._thread}/stat"))
        return int(fields[_STAT_CORE]) if len(fields) > _STAT_CORE else None


def _allowed() -> frozenset[int]:
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 0))


def _text(path: Path) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _lines(path: Path) -> Iterator[list[str]]:
    return _split(_text(path))


def _split(text: str) -> Iterator[list[str]]:
    return (row for row in map(str.split, text.splitlines()) if row)


def _rows(text: str) -> Iterator[tuple[str, float]]:
    """Names and the first numbers behind them."""
    for row in map(str.split, text.splitlines()):
        if len(row) > 1 and row[1].isdecimal():
            yield row[0], float(row[1])


def _behind_name(stat: str) -> list[str]:
    """The fields of a process after its name, which may hold any character."""
    return stat.rpartition(")")[2].split()


def _cpu_ns(stat: str) -> float:
    fields = _behind_name(stat)
    return float(sum(int(fields[at]) for at in _STAT_CPU) * _TICK_NS) if len(fields) > max(_STAT_CPU) else 0.0


def _cores(text: str) -> Iterator[int]:
    """The cores of a list such as "0-3,8"."""
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            yield from range(int(first), int(last or first) + 1)


def _quietly(read: Callable[[], dict[str, float]]) -> dict[str, float]:
    try:
        return read()
    except (OSError, ValueError, IndexError):
        return {}
