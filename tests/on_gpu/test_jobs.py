"""Whole jobs on a GPU: the trace, snapshots of memory, ranges, streams, a second profiler."""

import gzip
import json
from pathlib import Path

import pytest
from needs import needs
from on_gpu.jobs import diagnosis, ran, record

needs("torch")
pytestmark = pytest.mark.gpu

OUT_OF_MEMORY = """
loop(6)
torch.cuda.set_per_process_memory_fraction(0.05)
kept = []
try:
    while True:
        kept.append(torch.empty(1 << 28, device="cuda", dtype=torch.uint8))
except torch.OutOfMemoryError:
    del kept
loop()
print("trained")
"""
OWN_PROFILER = """
from torch.profiler import ProfilerActivity, profile
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as own:
    loop(60)
print("kernels", any(event.device_type.name == "CUDA" for event in own.events()))
"""
WITHOUT_CUPTI = """
import torch.profiler
torch.profiler.supported_activities = lambda: {torch.profiler.ProfilerActivity.CPU}
loop()
print("trained")
"""
STREAMS = """
side = torch.cuda.Stream()
for _ in range(60):
    with torch.cuda.stream(side):
        y = x @ x.t()
    torch.cuda.current_stream().wait_stream(side)
    step()
print("trained")
"""
RANGES = """
import os
from diagnose.probes import protocol
from diagnose.probes.recording import ranges
os.environ[protocol.NSIGHT] = "1"
told = ranges._torch_nvtx()
told.push("outer")
told.pop()
told.end(told.start("inner"))
print("trained")
"""
LOSS_IS_READ = """
for _ in range(60):
    step()
    model.weight.sum().item()
print("trained")
"""


def kinds(folder: Path) -> set[str]:
    """The kinds of events in the trace."""
    page = json.loads(gzip.decompress((folder / "o" / "rank0.json.gz").read_bytes()))
    return {str(event.get("cat")) for event in page["traceEvents"]}


def test_the_trace_holds_kernels_and_the_step_is_the_devices(tmp_path: Path) -> None:
    done = ran(tmp_path, "loop(); print('trained')")

    assert done.returncode == 0, done.stderr
    assert {"kernel", "cuda_runtime"} <= kinds(tmp_path)
    assert diagnosis(tmp_path)["steps"]["device_time_ns"] > 0
    assert record(tmp_path)["steps"]["clock"] == "device"


def test_synchronisations_are_in_the_trace(tmp_path: Path) -> None:
    ran(tmp_path, LOSS_IS_READ)

    assert {"cuda_sync", "gpu_memcpy"} <= kinds(tmp_path)


def test_cupti_lets_go_behind_the_window_and_the_environment_is_as_before(tmp_path: Path) -> None:
    body = "loop(60)\ntorch.cuda.synchronize()\nimport os, time\ntime.sleep(1)\nprint(os.environ.get('TEARDOWN_CUPTI'))"
    done = ran(tmp_path, body)

    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "None"), done.stderr
    assert record(tmp_path)["profiler"]["detaches_cupti"] is True
    assert {"kernel", "cuda_runtime"} <= kinds(tmp_path)


@pytest.mark.parametrize("steps", [16, 17, 18, 19])
def test_a_job_that_ends_as_cupti_lets_go_ends_well(steps: int, tmp_path: Path) -> None:
    done = ran(tmp_path, f"loop({steps})\nprint('ended')", "--at-step", "12", "--steps", "3")

    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "ended"), done.stderr
    assert "kernel" in kinds(tmp_path)


def test_the_drivers_facts_are_in_the_record(tmp_path: Path) -> None:
    ran(tmp_path, "torch.set_float32_matmul_precision('high')\nloop()\n", "--no-report")

    known = record(tmp_path)
    assert known["torch_settings"]["float32_matmul_precision"] == "high"
    assert known["device"]["nvml"]["sm_clock_max_mhz"] > 0
    assert known["memory"]["max_allocated_bytes"] > 0


def test_memory_leaves_a_snapshot(tmp_path: Path) -> None:
    done = ran(tmp_path, "loop(); print('trained')", "--memory", "--no-report")

    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "trained"), done.stderr
    assert (tmp_path / "o" / "memory-rank0.pickle").stat().st_size > 0
    assert "nothing to record" not in done.stderr


@pytest.mark.parametrize("options", [(), ("--memory",)])
def test_an_oom_leaves_a_snapshot_and_the_job_goes_on(options: tuple[str, ...], tmp_path: Path) -> None:
    done = ran(tmp_path, OUT_OF_MEMORY, "--no-report", *options)

    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "trained"), done.stderr
    assert (tmp_path / "o" / "memory-rank0-oom.pickle").stat().st_size > 0


def test_the_jobs_own_profiler_of_the_gpu_has_precedence(tmp_path: Path) -> None:
    done = ran(tmp_path, OWN_PROFILER, "--no-report")

    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "kernels True"), done.stderr


def test_without_cupti_the_device_is_not_called_idle(tmp_path: Path) -> None:
    done = ran(tmp_path, WITHOUT_CUPTI)

    assert done.returncode == 0, done.stderr
    assert "kernel" not in kinds(tmp_path)
    assert diagnosis(tmp_path)["steps"]["device_time_ns"] is None


def test_work_on_two_streams_is_one_step(tmp_path: Path) -> None:
    done = ran(tmp_path, STREAMS)

    assert done.returncode == 0, done.stderr
    assert diagnosis(tmp_path)["steps"]["count"] >= 3


def test_ranges_reach_nvtx_where_a_tool_listens(tmp_path: Path) -> None:
    done = ran(tmp_path, RANGES, "--no-report")

    assert done.stdout.splitlines()[-1] == "trained", done.stderr


def test_an_armed_run_opens_windows_with_kernels(tmp_path: Path) -> None:
    done = ran(tmp_path, "loop(1500)", "--no-report", "--arm", "--every", "300")

    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "o").glob("step-*/rank0.json.gz"))
    assert (tmp_path / "o" / "rank0.steps").stat().st_size > 0
