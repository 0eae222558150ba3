"""Files of older tools and versions: read as newer ones are, or named as what they are, with what to use instead."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from nsys_exports import COPY, KERNEL, RANGES, kernel, named_range, training_export, write_export

from diagnose import analysis
from diagnose.cli import main

LEGACY = """
import sys, torch
from torch.autograd import profiler_legacy
from torch.profiler import profile

def train():
    for _ in range(3):
        torch.nn.Linear(8, 8)(torch.randn(2, 8)).sum().backward()

with profiler_legacy.profile() as legacy:
    train()
legacy.export_chrome_trace(sys.argv[1] + "/legacy.json")
with profile() as new:
    train()
new.events().export_chrome_trace(sys.argv[1] + "/events.json")
"""


def told(path: Path) -> tuple[int, str]:
    """The exit status of `diagnose analyze`, and what it says."""
    answer = CliRunner().invoke(main, ["analyze", str(path), "--details"])
    return answer.exit_code, " ".join(answer.output.split())


@pytest.mark.capture
@pytest.mark.parametrize("name", ["legacy.json", "events.json"])
def test_a_trace_that_an_event_list_wrote_is_named_with_what_to_use_instead(name: str, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", LEGACY, str(tmp_path)], check=True, capture_output=True)

    code, says = told(tmp_path / name)

    assert code == 3
    assert "a legacy trace of torch.autograd.profiler" in says
    assert "torch.profiler.profile(activities=[CPU, CUDA])" in says


def test_a_legacy_trace_with_kernels_and_arrows_is_named(tmp_path: Path) -> None:
    event = '"ts": 1, "dur": 2, "tid": 1, "args": {}'
    arrow = '{"name": "mm", "ph": "s", "ts": 1, "tid": 1, "pid": "CPU functions", "id": 0, "cat": "cpu_to_cuda"}'
    drawn = (f'{{"name": "mm", "ph": "X", "pid": "{pid} functions", {event}}}' for pid in ("CPU", "CUDA"))
    (tmp_path / "t.json").write_text(f"[{', '.join((*drawn, arrow))}]")

    assert "a legacy trace of torch.autograd.profiler" in told(tmp_path / "t.json")[1]


def test_a_profile_of_nvprof_is_named(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "a.sqlite")
    connection.execute("CREATE TABLE StringTable (_id_ INTEGER, value TEXT)")
    connection.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL (start INT, end INT, name INT)")
    connection.execute("INSERT INTO CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL VALUES (1, 2, 1)")
    connection.commit()
    connection.close()

    code, says = told(tmp_path / "a.sqlite")

    assert code == 3
    assert "a profile of nvprof" in says
    assert "nsys profile --trace=cuda,nvtx" in says


def test_an_export_without_cuda_and_nvtx_says_so(tmp_path: Path) -> None:
    tables = {"TARGET_INFO_SYSTEM_ENV": [{"name": "OS"}], "OSRT_API": [{"start": 1, "end": 2}]}

    code, says = told(write_export(tmp_path / "a.sqlite", ("read",), tables))

    assert code == 3
    assert "it was recorded without CUDA and NVTX" in says


def test_the_device_of_an_export_before_2021(tmp_path: Path) -> None:
    path = training_export(tmp_path / "a.sqlite")
    device = {"deviceId": 0, "name": "Tesla V100-SXM2-16GB", "globalMemorySize": 16 << 30, "numMultiprocessors": 80}
    connection = sqlite3.connect(path)
    connection.execute(f"CREATE TABLE TARGET_INFO_CUDA_GPU ({', '.join(device)})")
    connection.execute("INSERT INTO TARGET_INFO_CUDA_GPU VALUES (?, ?, ?, ?)", tuple(device.values()))
    connection.commit()
    connection.close()

    found = analysis.analyze(path)

    assert found.ranks[0].device == "Tesla V100-SXM2-16GB"
    assert found.mfu.peak_flops == 125e12


def test_an_empty_text_beside_a_number_of_a_text_is_that_text(tmp_path: Path) -> None:
    """Versions of 2019 declare every field as not null."""
    ranges = [{**named_range("", 10 * at, 9), "textId": 1} for at in range(5)]
    kernels = [kernel(0, 10 * at + 1, 5) for at in range(5)]

    found = analysis.analyze(
        write_export(tmp_path / "a.sqlite", ("sm90_gemm", "train_step"), {KERNEL: kernels, RANGES: ranges})
    )

    assert [row.name for row in found.ranges] == ["train_step"]


@pytest.mark.parametrize("named", [True, False])
def test_each_rank_of_an_export_is_a_process_that_is_named(named: bool, tmp_path: Path) -> None:
    path = training_export(tmp_path / "a.sqlite", processes=(10, 11))
    if named:
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE PROCESSES (globalPid INT, pid INT, name TEXT)")
        row = next(connection.execute(f"SELECT globalPid FROM {KERNEL} WHERE deviceId = 1"))
        connection.execute("INSERT INTO PROCESSES VALUES (?, 11, 'python3')", row)
        connection.commit()
        connection.close()

    says = told(path)[1]

    second = "process 11 (python3) on GPU 1" if named else "process 11 on GPU 1"
    assert f"over 2 ranks (rank 0 is process 10 on GPU 0; rank 1 is {second})" in says


def test_of_two_processes_of_which_one_hardly_uses_the_gpu_the_report_says_which_it_is_of(tmp_path: Path) -> None:
    path = training_export(tmp_path / "a.sqlite", processes=(10, 11))
    connection = sqlite3.connect(path)
    for table in (KERNEL, COPY):
        connection.execute(f"UPDATE {table} SET end = start + 1000 WHERE deviceId = 0")
    connection.commit()
    connection.close()

    assert "(rank 0 is process 11 on GPU 1)" in told(path)[1]
