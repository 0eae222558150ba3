"""What the machine and the job's collectives leave for a capture, and which ranks record."""

from __future__ import annotations

import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from diagnose.probes.limits import chosen_ranks
from diagnose.probes.limits import room as of_limits
from diagnose.probes.limits.chosen_ranks import left_out, parsed, recorded, spread
from diagnose.probes.limits.room import collective_timeout_s, free_memory_bytes, limits

GIB = 1 << 30


def host(root: Path, cgroup: str = "", **files: str) -> Path:
    """A machine with 8 GiB free, and files of its cgroups: "pod__memory.max" is pod/memory.max."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: 99 kB\nMemAvailable:   {8 * GIB // 1024} kB\nBuffers: 1 kB\n")
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, text in files.items():
        file = root / "sys/fs/cgroup" / name.replace("__", "/").replace("_OF_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    return root


@pytest.mark.parametrize(
    ("cgroup", "files", "free_gib"),
    [
        ("", {}, 8),
        ("0::/pod\n", {"pod__memory_OF_max": "max", "pod__memory_OF_current": "5"}, 8),
        ("0::/pod\n", {"pod__memory_OF_max": str(4 * GIB), "pod__memory_OF_current": str(3 * GIB)}, 1),
        ("0::/pod/a\n", {"pod__memory_OF_max": str(4 * GIB), "pod__memory_OF_current": str(2 * GIB)}, 2),
        (
            "7:memory:/x\n",
            {
                "memory__x__memory_OF_limit_in_bytes": str(6 * GIB),
                "memory__x__memory_OF_usage_in_bytes": str(1 * GIB),
            },
            5,
        ),
    ],
    ids=["host", "no limit", "cgroup", "cgroup above", "version 1"],
)
def test_free_memory_is_the_least_of_host_and_cgroups(
    cgroup: str, files: dict[str, str], free_gib: int, tmp_path: Path
) -> None:
    assert free_memory_bytes(host(tmp_path, cgroup, **files)) == free_gib * GIB


def test_a_system_that_does_not_tell_sets_no_limit_of_memory(tmp_path: Path) -> None:
    assert free_memory_bytes(tmp_path) is None


def test_a_capture_may_take_a_part_of_what_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_limits, "free_memory_bytes", lambda: 8 * GIB)
    monkeypatch.setattr(of_limits, "free_bytes", lambda folder: 6 * GIB)

    allowed = limits(100, tmp_path, 4, timeout_s=600.0)

    assert (allowed.budget_bytes, allowed.memory_bytes, allowed.disk_bytes) == (100, 2 * GIB, 3 * GIB)
    assert (allowed.stall_s, allowed.ranks) == (60.0, 4)
    assert limits(100, tmp_path, 1, timeout_s=None).stall_s is None


class Group:
    """A process group of torch, as far as it tells its timeout."""

    def __init__(self, timeout_s: float | None) -> None:
        self._timeout_s = timeout_s

    def name(self) -> str:
        return "gloo"

    def _get_backend(self, device: object) -> object:
        if self._timeout_s is None:
            raise RuntimeError("no such backend")
        return SimpleNamespace(options=SimpleNamespace(_timeout=datetime.timedelta(seconds=self._timeout_s)))


@pytest.mark.parametrize(
    ("backend", "timeouts", "expected"),
    [
        ("gloo", (1800, 40), 40.0),
        ("nccl", (None, 90), 90.0),
        ("nccl", (None,), 600.0),
        ("gloo", (None,), 1800.0),
    ],
)
def test_the_shortest_timeout_counts_and_the_default_where_none_is_told(
    backend: str, timeouts: tuple[float | None, ...], expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    world = SimpleNamespace(pg_map=dict.fromkeys(map(Group, timeouts)))
    distributed = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: True,
        get_backend=lambda: backend,
        distributed_c10d=SimpleNamespace(_world=world),
    )
    monkeypatch.setitem(__import__("sys").modules, "torch.distributed", distributed)

    assert collective_timeout_s() == expected


def test_a_real_group_tells_its_timeout(tmp_path: Path) -> None:
    distributed = pytest.importorskip("torch.distributed")
    assert collective_timeout_s() is None
    given = datetime.timedelta(seconds=77)
    distributed.init_process_group("gloo", f"file://{tmp_path}/store", given, world_size=1, rank=0)
    try:
        assert collective_timeout_s() == 77.0
    finally:
        distributed.destroy_process_group()


@pytest.mark.parametrize(
    ("asked", "world_size", "local_rank", "records"),
    [
        (None, 1, None, [0]),
        (None, 16, None, list(range(16))),
        (None, 32, None, list(range(0, 32, 2))),
        (None, 100, None, [number * 100 // 16 for number in range(16)]),
        ("all", 32, None, list(range(32))),
        ("0,8,40", 16, None, [0, 8]),
        ("one-per-node", 16, 8, [0, 8]),
        ("one-per-node", 32, None, list(range(0, 32, 2))),
    ],
)
def test_which_ranks_record(asked: str | None, world_size: int, local_rank: int | None, records: list[int]) -> None:
    """`local_rank` is the number of ranks on a node; None: not known."""
    local = [None if local_rank is None else rank % local_rank for rank in range(world_size)]
    found = [rank for rank in range(world_size) if not left_out(rank, world_size, asked, local[rank])]

    assert found == records
    assert recorded(world_size, asked, local_rank) == len(records)


def test_a_large_job_is_told_how_to_record_all() -> None:
    assert left_out(1, 128, None, None) == "16 of 128 ranks record, spread evenly: --ranks all records all"
    assert left_out(3, 8, "0,4", None) == "--ranks 0,4"
    assert len(spread(100_000)) == chosen_ranks.MOST_BY_DEFAULT


@pytest.mark.parametrize("text", ["", "some", "1,,2", "-1", "1;2", "²"])
def test_what_is_no_choice_of_ranks_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is none of: 0,8,16"):
        parsed(text)
