"""The host's part of the capture facts: the CPU cores that this process may use, and the ranks that share them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ..guard import quietly

_LOCAL_RANKS = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
_TASKS_OF_NODES = ("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE")


def cores(variables: Mapping[str, str], world_size: int) -> dict[str, object]:
    """The cores: `usable` by affinity, `quota` of the cgroup, `shared` by the host's ranks, and the ranks' number."""
    return {
        "usable": quietly(usable),
        "quota": quietly(quota),
        "shared": quietly(lambda: shared(variables)),
        "local_ranks": quietly(lambda: local_ranks(variables, world_size)),
    }


def usable() -> int | None:
    """Cores in this process's affinity, which DataLoader workers inherit; all of the host if affinity is unknown."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def shared(variables: Mapping[str, str]) -> int | None:
    """Cores that all ranks of the host have together.

    Under Slurm these are the step's cores on this node, where each task may be bound to its own; else the affinity of
    the parent: torchrun's ranks share that of the agent, whether or not it binds them.
    """
    of_node = variables.get("SLURM_CPUS_ON_NODE", "")
    if of_node.isdecimal() and not variables.get("LOCAL_WORLD_SIZE"):
        return int(of_node)
    return len(os.sched_getaffinity(os.getppid())) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def local_ranks(variables: Mapping[str, str], world_size: int) -> int | None:
    """Number of ranks on this host, from the launcher; None if several run and nothing gives their number here."""
    if world_size == 1:
        return 1
    for name in _LOCAL_RANKS:
        if variables.get(name, "").isdecimal():
            return int(variables[name])
    return _tasks_here(variables)


def _tasks_here(variables: Mapping[str, str]) -> int | None:
    """Slurm's tasks on this node: "2(x3),1" is 2 on each of three nodes and 1 on the fourth."""
    text = next((variables[name] for name in _TASKS_OF_NODES if variables.get(name)), "")
    groups = re.findall(r"(\d+)(?:\(x(\d+)\))?", text)
    tasks = [int(each) for each, nodes in groups for _ in range(int(nodes or 1))]
    node = variables.get("SLURM_NODEID", "")
    if len(set(tasks)) == 1:
        return tasks[0]
    return tasks[int(node)] if node.isdecimal() and int(node) < len(tasks) else None


def quota(root: Path = Path("/")) -> float | None:
    """CPU time per wall time that the cgroup and those above it allow, in cores; None without a limit."""
    quotas = [*_quotas_of_v2(root), *_quotas_of_v1(root)]
    return min(quotas, default=None)


def _quotas_of_v2(root: Path) -> Iterator[float]:
    for folder in cgroup_folders(root, root / "sys/fs/cgroup", lambda controllers: controllers == ""):
        limit = numbers_in(folder / "cpu.max")
        if len(limit) == 2:
            yield limit[0] / limit[1]


def _quotas_of_v1(root: Path) -> Iterator[float]:
    for folder in cgroup_folders(root, root / "sys/fs/cgroup/cpu", lambda controllers: "cpu" in controllers.split(",")):
        limit = numbers_in(folder / "cpu.cfs_quota_us") + numbers_in(folder / "cpu.cfs_period_us")
        if len(limit) == 2 and limit[0] > 0:
            yield limit[0] / limit[1]


def cgroup_folders(root: Path, top: Path, wanted: Callable[[str], bool]) -> Iterator[Path]:
    """The folder of this process's cgroup and those above it; inside a container only the topmost is there."""
    for line in (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if wanted(controllers):
            folder = top / path.strip("/")
            yield from (folder, *(above for above in folder.parents if above.is_relative_to(top)))


def numbers_in(file: Path) -> list[int]:
    """The numbers in the file, such as "400000 100000"; empty if it is missing or holds "max"."""
    words = file.read_text(encoding="ascii").split() if file.is_file() else []
    return [int(word) for word in words] if all(re.fullmatch(r"-?\d+", word) for word in words) else []
