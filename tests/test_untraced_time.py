"""Time of which the trace tells nothing: what to do next is for what is missing from it."""

from pathlib import Path

import pytest
from kineto import COMPUTE
from remedies.single_gpu_jobs import Record, Work, analysed, job, product

from diagnose.diagnosis import Finding


def unexplained(folder: Path, work: Work, record: Record | None = None) -> Finding:
    findings = analysed(folder, job(product(), work), record).findings
    return next(finding for finding in findings if finding.rule == "unexplained-time")


def test_a_host_that_runs_no_operator_is_looked_at_by_its_stacks(tmp_path: Path) -> None:
    found = unexplained(tmp_path, lambda trace: trace.host(5000))

    assert "with_stack=True" in found.do
    assert "diagnose run samples the stack" in found.do
    assert "no other process on the GPU" not in found.do


@pytest.mark.parametrize(
    ("work", "record"),
    [
        (lambda trace: trace.launch("void other(float*)", 10, after=trace.stream_end[COMPUTE] + 5_000_000), None),
        (lambda trace: trace.host(5000), {"steps": {"source": "loop"}}),
    ],
    ids=["kernels that wait in the queue", "stacks were sampled"],
)
def test_else_another_capture_may_tell(tmp_path: Path, work: Work, record: Record | None) -> None:
    assert "no other process on the GPU" in unexplained(tmp_path, work, record).do
