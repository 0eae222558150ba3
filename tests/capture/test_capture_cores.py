"""The cores that the capture record holds: affinity, the cgroup's quota, and the ranks that share them."""

import os
from pathlib import Path

import pytest

from diagnose.probes.machine.cores import cores, local_ranks, quota, shared


def cgroup(root: Path, lines: str, **limits: str) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(lines)
    for name, text in limits.items():
        file = root / "sys/fs/cgroup" / name.replace("__", "/")
        file = file.with_name(file.name.replace("cpu_", "cpu."))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    return root


@pytest.mark.parametrize(
    ("lines", "limits", "expected"),
    [
        ("0::/pod/job\n", {"pod__cpu_max": "400000 100000", "pod__job__cpu_max": "max 100000"}, 4.0),
        ("0::/pod/job\n", {"pod__cpu_max": "400000 100000", "pod__job__cpu_max": "150000 100000"}, 1.5),
        ("0::/pod\n", {"cpu_max": "200000 100000"}, 2.0),
        ("0::/\n", {"cpu_max": "max 100000"}, None),
        ("0::/\n", {}, None),
        (
            "4:cpu,cpuacct:/docker/x\n0::/\n",
            {"cpu__cpu_cfs_quota_us": "300000", "cpu__cpu_cfs_period_us": "100000"},
            3.0,
        ),
        ("4:cpu,cpuacct:/\n", {"cpu__cpu_cfs_quota_us": "-1", "cpu__cpu_cfs_period_us": "100000"}, None),
        ("4:cpuset:/\n", {"cpu__cpu_cfs_quota_us": "300000", "cpu__cpu_cfs_period_us": "100000"}, None),
    ],
    ids=["above", "own", "in a container", "max", "no file", "version 1", "version 1, none", "another controller"],
)
def test_the_quota_is_the_least_of_the_groups_on_the_way_up(
    tmp_path: Path, lines: str, limits: dict[str, str], expected: float | None
) -> None:
    assert quota(cgroup(tmp_path, lines, **limits)) == expected


@pytest.mark.parametrize(
    ("variables", "world_size", "expected"),
    [
        ({}, 1, 1),
        ({}, 8, None),
        ({"LOCAL_WORLD_SIZE": "4", "SLURM_TASKS_PER_NODE": "1"}, 8, 4),
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, 4, 2),
        ({"SLURM_STEP_TASKS_PER_NODE": "8(x2)"}, 16, 8),
        ({"SLURM_STEP_TASKS_PER_NODE": "2(x3),1", "SLURM_NODEID": "3"}, 7, 1),
        ({"SLURM_STEP_TASKS_PER_NODE": "2(x3),1"}, 7, None),
    ],
)
def test_the_launcher_says_how_many_ranks_share_the_host(
    variables: dict[str, str], world_size: int, expected: int | None
) -> None:
    assert local_ranks(variables, world_size) == expected


def test_a_slurm_task_shares_the_cores_of_its_step_on_the_node() -> None:
    assert shared({"SLURM_CPUS_ON_NODE": "64"}) == 64
    assert shared({"SLURM_CPUS_ON_NODE": "64", "LOCAL_WORLD_SIZE": "8"}) == len(os.sched_getaffinity(os.getppid()))


def test_the_record_holds_what_this_process_may_use() -> None:
    found = cores({"LOCAL_WORLD_SIZE": "2"}, 2)

    assert (found["usable"], found["local_ranks"]) == (len(os.sched_getaffinity(0)), 2)
