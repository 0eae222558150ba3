"""The late rank of a public job, and real two-process jobs on the CPU with injected faults."""

import os
import shutil
from pathlib import Path

import pytest
from needs import needs
from read_once import diagnosis_of

from diagnose.analysis import analyze

pytestmark = pytest.mark.long

REAL = os.environ.get("DIAGNOSE_REAL_TRACES")
needs_traces = pytest.mark.skipif(not REAL, reason="set DIAGNOSE_REAL_TRACES to the folder with real traces")


@needs_traces
def test_rank_7_of_the_dlrm_job_is_late_by_its_host_code_and_nobody_else_is() -> None:
    found = diagnosis_of(Path(REAL or "") / "dlrm-8xv100")

    assert [(s.rank, s.cause) for s in found.stragglers] == [(7, "host")]
    assert "more of Python" in found.stragglers[0].because


@needs_traces
def test_without_rank_7_nobody_is_accused_and_the_missing_trace_is_suspected(tmp_path: Path) -> None:
    for rank in range(7):
        (trace,) = (Path(REAL or "") / "dlrm-8xv100").glob(f"worker{rank}_*")
        shutil.copy(trace, tmp_path)

    found = analyze(tmp_path)

    assert found.stragglers == ()
    assert ["trace is missing (7)" in n.because for n in found.not_judged if n.rule == "straggler"] == [True]


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["none", "sleep", "loader", "more_work", "gc", "save"])
def test_the_rank_and_cause_of_a_real_fault_are_named(fault: str) -> None:
    needs("torch")
    from accuracy.stragglers import cases

    found = list(cases([fault], repeats=3))

    assert [case.right for case in found] == [True] * 3, [case.says for case in found]
