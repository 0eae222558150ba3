"""The optimizer of a job without a GPU: which form it has, what the fused one buys, and where torch has none."""

from pathlib import Path

import pytest
from analysed import GEMM
from kineto import Trace
from remedies.single_gpu_jobs import analysed

from diagnose.diagnosis import Diagnosis

LOOP, FOREACH, FUSED = ("aten::mul_", "aten::addcdiv_"), ("aten::_foreach_mul_",), ("aten::_fused_adamw_",)
RULE = "cpu-optimizer"


def updating(folder: Path, *operators: str, optimizer: str = "AdamW", gpu: str | None = None) -> Diagnosis:
    """Steps of 6 ms, of which the optimizer takes half: 2 ms in operators, 1 ms in Python."""
    job = Trace(gpu=gpu)
    for _ in range(5):
        with job.step():
            job.launch(GEMM, 3000) if gpu else job.cpu_op("aten::mm", 3000)
            with job.optimizer(optimizer):
                for name in operators:
                    job.cpu_op(name, 2000 / len(operators))
                job.host(1000)
    return analysed(folder, job, {"versions": {"torch": "2.13.0"}})


def fact(found: Diagnosis, name: str) -> object:
    return next((fact.value for fact in found.facts if fact.name == name), None)


@pytest.mark.parametrize(("operators", "form"), [(LOOP, "single"), (FOREACH, "foreach"), (FUSED, "fused")])
def test_the_form_is_told_by_the_operators(operators: tuple[str, ...], form: str, tmp_path: Path) -> None:
    found = updating(tmp_path, *operators)

    assert fact(found, "cpu_optimizer_form") == form
    assert fact(found, "cpu_optimizer_share") == pytest.approx(0.5, abs=0.01)
    assert (RULE in {finding.rule for finding in found.findings}) == (form != "fused")


def test_the_fused_form_is_typed_and_promises_no_more_than_the_optimizer_takes(tmp_path: Path) -> None:
    found = next(finding for finding in updating(tmp_path, *LOOP).findings if finding.rule == RULE)

    assert found.patch is not None
    assert found.patch.set == {"torch.optim": "torch.optim.AdamW(..., fused=True)"}
    cases = (6 / (3 + 1.7 + 0.6), 6 / (3 + 0.2 + 0.05))
    assert found.predicted_speedup == pytest.approx(cases, rel=0.02)


def test_an_optimizer_that_has_no_fused_form_is_told_none(tmp_path: Path) -> None:
    found = updating(tmp_path, *LOOP, optimizer="RMSprop")

    assert RULE not in {finding.rule for finding in found.findings}
    assert "no fused form of RMSprop on CPUs" in next(n.because for n in found.not_advised if "RMSprop" in n.because)


def test_on_a_gpu_the_rule_is_about_another_job(tmp_path: Path) -> None:
    found = updating(tmp_path, *LOOP, gpu="NVIDIA H100 80GB HBM3")

    assert RULE not in {finding.rule for finding in found.findings}
    assert RULE not in {rule.rule for rule in found.not_judged}
