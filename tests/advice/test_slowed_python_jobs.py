"""Tools of Python and of the Trainer that slow each step: what the probe sees of them, and what is advised."""

import gc
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kineto import Trace
from remedies.single_gpu_jobs import analysed

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis
from diagnose.probes.facts.interpreter import traced_by
from diagnose.probes.recording.clock import StepClock

JOBS = Path(__file__).parent / "jobs"
PATIENCE_S = 300


@contextmanager
def on(start: Callable[[], Any], stop: Callable[[], Any]) -> Iterator[None]:
    start()
    try:
        yield
    finally:
        stop()


def test_what_traces_python_is_named() -> None:
    before = sys.gettrace()  # that of a measurement of coverage

    with on(lambda: sys.settrace(lambda *_: None), lambda: sys.settrace(before)):
        with on(tracemalloc.start, tracemalloc.stop):
            both = traced_by()
        one = traced_by()

    assert both == f"tracemalloc, {one}"
    assert one.startswith("sys.settrace")


@pytest.mark.capture
def test_memory_that_a_variable_lets_python_follow_is_named() -> None:
    asked = "from diagnose.probes.facts.interpreter import traced_by; print(traced_by())"
    said = subprocess.run(
        [sys.executable, "-c", asked], env={**os.environ, "PYTHONTRACEMALLOC": "5"}, check=True, capture_output=True,
        text=True, timeout=PATIENCE_S,
    )  # fmt: skip

    assert "tracemalloc" in said.stdout


def test_the_clock_counts_the_collections_that_a_job_asks_for() -> None:
    clock = StepClock(lambda: 0)
    for _ in range(3):
        gc.collect()

    assert clock.collections()[-1] == 3


def plain(folder: Path, **record: Any) -> Diagnosis:
    """Four steps without a GPU, a fifth of which is the host's, and whose record is that."""
    job = Trace(gpu=None)
    for _ in range(4):
        with job.step():
            job.cpu_op("aten::mm", 6000)
            job.gc(2000)
            job.cpu_op("aten::mm", 1000)
    return analysed(folder, job, record)


def fired(found: Diagnosis) -> dict[str, str]:
    return {finding.rule: finding.severity for finding in found.findings}


@pytest.mark.parametrize(("tracers", "severity"), [("tracemalloc", "critical"), ("nothing", None)])
def test_times_of_a_traced_python_come_before_every_change(tracers: str, severity: str | None, tmp_path: Path) -> None:
    found = plain(tmp_path, python_traced_by=tracers)

    assert fired(found).get("traced-python") == severity
    assert found.next.kind != "capture" or severity


@pytest.mark.parametrize(
    ("counts", "asked"), [([4, 0, 17], True), ([900, 90, 8], False), ([0, 0, 2], False), ([9000, 0, 0], False)]
)
def test_python_runs_no_full_collection_before_several_smaller_ones(
    counts: list[int], asked: bool, tmp_path: Path
) -> None:
    found = plain(tmp_path, steps={"collections": counts})

    assert {fact.name: fact.value for fact in found.facts}["collects_by_call"] is asked


@pytest.mark.parametrize(
    ("used", "has", "fires"), [("DEFAULT", True, True), ("AVX512", True, False), ("DEFAULT", False, False)]
)
def test_vectors_that_the_cpu_has_are_to_be_used(used: str, has: bool, fires: bool, tmp_path: Path) -> None:
    found = plain(tmp_path, torch_settings={"cpu_vectors": used, "cpu_has_avx2": has})

    assert ("unused-vector-units" in fired(found)) == fires


def run(folder: Path, script: str, *options: str) -> Diagnosis:
    out = folder / "bundle"
    asked = ["run", "--no-ledger", "--stop", "--out", str(out), "--", sys.executable, str(JOBS / script), *options]
    subprocess.run(
        [sys.executable, "-m", "diagnose", *asked], cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=True, capture_output=True, timeout=PATIENCE_S,
    )  # fmt: skip
    return analyze(out)


@pytest.mark.capture
@pytest.mark.slow
def test_a_real_job_that_collects_in_each_step(tmp_path: Path) -> None:
    first = run(tmp_path, "slowed_python.py", "collect").next

    assert first.rule == "gc-pauses"
    assert "code of the loop asks" in first.do


@pytest.mark.capture
@pytest.mark.slow
@pytest.mark.parametrize(("options", "fires"), [(["follow"], True), ([], False)])
def test_a_real_job_whose_allocations_are_followed(options: list[str], fires: bool, tmp_path: Path) -> None:
    assert (run(tmp_path, "slowed_python.py", *options).next.rule == "traced-python") == fires


@pytest.mark.capture
@pytest.mark.slow
@pytest.mark.parametrize(("options", "fires"), [(["watched"], True), ([], False)])
def test_a_real_trainer_that_watches_memory(options: list[str], fires: bool, tmp_path: Path) -> None:
    pytest.importorskip("psutil")
    found = run(tmp_path, "watched_memory.py", *options)

    assert ("watched-memory-peaks" in fired(found)) == fires
