"""Operators that order or draw many elements: of the step, on a CPU and on a GPU, not those of a loader's sampler."""

from pathlib import Path

import pytest
from analysed import GEMM
from kineto import Trace
from lines.lines_jobs import samples, told
from remedies.single_gpu_jobs import analysed

from diagnose.diagnosis import Diagnosis

RULE = "seldom-operators"
SORT = "void cub::DeviceRadixSortOnesweepKernel<>"


def share(found: Diagnosis) -> float:
    return next(float(fact.value) for fact in found.facts if fact.name == "seldom_operator_share")


def on_host(folder: Path, us: float, of_loader: bool = False) -> Diagnosis:
    job = Trace(gpu=None)
    for _ in range(4):
        with job.step():
            if of_loader:
                with job.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
                    job.cpu_op("aten::randperm", us)
            else:
                job.cpu_op("aten::randperm", us)
            job.cpu_op("aten::mm", 1000)
    return analysed(
        folder, job, {"stack_samples": samples(("draw", "step", "randperm", 60), ("main", "step", "mul", 9))}
    )


@pytest.mark.parametrize(("us", "severity"), [(3000, "critical"), (10, None)])
def test_a_permutation_of_all_rows_in_each_step(us: float, severity: str | None, tmp_path: Path) -> None:
    found = on_host(tmp_path, us)
    finding = next((each for each in found.findings if each.rule == RULE), None)

    assert share(found) == pytest.approx(us / (us + 1000), rel=0.02)
    assert (finding.severity if finding else None) == severity
    assert finding is None or "aten::randperm" in finding.action
    assert finding is None or told(finding)[0].startswith("draw data.py")


def test_what_the_sampler_of_a_loader_draws_is_loading(tmp_path: Path) -> None:
    assert share(on_host(tmp_path, 3000, of_loader=True)) == 0


def test_on_a_gpu_its_kernels_count(tmp_path: Path) -> None:
    job = Trace()
    for _ in range(4):
        with job.step():
            job.op("aten::sort", [[1_000_000]], SORT, 3000)
            job.op("aten::mm", [[4096, 4096]] * 2, GEMM, 1000)
            job.sync()
    found = analysed(tmp_path, job, {})

    assert share(found) == pytest.approx(0.75, abs=0.05)
    assert RULE in {each.rule for each in found.findings}
