"""Memory that comes anew in each step: counted for the thread, judged by the record, and kept by variables of glibc."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kineto import Trace
from remedies.single_gpu_jobs import analysed

from diagnose.diagnosis import Diagnosis
from diagnose.probes.machine.malloc import malloc_library
from diagnose.probes.recording.system_work import system_work

RULE = "page-faults"
PAGES = 20_000
KEEPS = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(64 << 30), "MALLOC_TOP_PAD_": str(64 << 20)}
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux counts page faults of a thread")
FAULTS = """
import torch
from diagnose.probes.recording.system_work import system_work
for number in range(40):
    if number == 30:
        begin = system_work()
    torch.ones(16 << 20).add_(1)
print(system_work()[1] - begin[1])
"""


@linux
def test_pages_that_this_thread_touches_first_are_counted() -> None:
    begin = system_work()
    held = b"\1" * (PAGES * 4096)
    ended = system_work()

    assert begin is not None
    assert ended is not None
    assert held
    assert ended[0] >= begin[0]
    assert ended[1] - begin[1] > 0


@linux
def test_the_variables_of_the_patch_keep_the_memory_of_a_large_tensor() -> None:
    if malloc_library() != "glibc":
        pytest.skip("another library serves the memory")
    usual, kept = (
        int(
            subprocess.run(
                [sys.executable, "-c", FAULTS], env={**os.environ, **more}, capture_output=True, check=True
            ).stdout
        )
        for more in ({}, KEEPS)
    )

    assert kept < usual / 2  # a round or two of ten still meet new pages


def test_a_library_in_place_of_glibc_is_named(tmp_path: Path) -> None:
    maps = tmp_path / "proc/self/maps"
    maps.parent.mkdir(parents=True)
    maps.write_text("7f00-7f01 r-xp 00000000 08:01 1 /usr/lib/x86_64-linux-gnu/libjemalloc.so.2\n")

    assert malloc_library(tmp_path) == "jemalloc"
    maps.write_text("7f00-7f01 r-xp 00000000 08:01 1 /usr/lib/libarrow.so.1500\n")
    assert malloc_library(tmp_path) != "jemalloc"


def faulting(folder: Path, gpu: str | None = None, **more: Any) -> Diagnosis:
    """Steps of 10 ms, 4 of them in the kernel, for 2,000 page faults."""
    trace = Trace(gpu=gpu)
    for _ in range(5):
        with trace.step():
            trace.cpu_op("aten::mm", 4000)
            trace.cpu_op("aten::gelu", 6000)
            if gpu:
                trace.launch("gemm", 8000)
    steps = {"control_before_ns": [10e6] * 5, "unprofiled_system_ns": [4e6] * 5, "unprofiled_page_faults": [2000] * 5}
    return analysed(folder, trace, {"steps": steps, "malloc": "glibc", "environment": {}, **more})


def test_they_come_first_with_variables_and_within_what_they_take(tmp_path: Path) -> None:
    found = faulting(tmp_path)

    assert found.next.rule == RULE
    assert found.fact("page_fault_share") == pytest.approx(0.4)
    assert found.fact("page_faults_per_step") == 2000
    assert found.next.predicted_speedup == pytest.approx((1 / (1 - 0.8 * 0.4), 1 / (1 - 1.2 * 0.4)), rel=0.03)
    finding = next(each for each in found.findings if each.rule == RULE)
    assert finding.patch is not None
    assert finding.patch.target == "environment"
    assert finding.patch.set == KEEPS


def test_time_in_the_kernel_that_faults_do_not_explain_is_something_else(tmp_path: Path) -> None:
    steps = {"control_before_ns": [10e6] * 5, "unprofiled_system_ns": [4e6] * 5, "unprofiled_page_faults": [50] * 5}

    assert faulting(tmp_path, steps=steps).fact("page_fault_share") == pytest.approx(0.015)


def test_another_library_gets_words_and_no_variables_of_glibc(tmp_path: Path) -> None:
    finding = next(each for each in faulting(tmp_path, malloc="jemalloc").findings if each.rule == RULE)

    assert finding.patch is None
    assert "MALLOC_CONF=dirty_decay_ms:-1" in finding.do


def test_once_the_variables_are_set_they_are_no_advice(tmp_path: Path) -> None:
    assert RULE not in {each.rule for each in faulting(tmp_path, environment=KEEPS).findings}


def test_a_step_on_a_gpu_has_none(tmp_path: Path) -> None:
    assert RULE not in {each.rule for each in faulting(tmp_path, gpu="NVIDIA H100 80GB HBM3").findings}
