"""What counts as the optimizer's, which optimizer runs, and what is advised to whom."""

import json
from pathlib import Path
from typing import Any

import pytest
from analysed import ADD, FOREACH, GEMM, causes, facts, without
from kineto import Trace
from more_traces import answer_for

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis
from diagnose.facts import Unknown

LAMB = "void multi_tensor_apply_kernel<TensorListMetadata<4>, LAMBStage1Functor<float>, float>(long)"
SGD = "void at::native::multi_tensor_apply_kernel<FusedSgdMathFunctor<float, 3>>()"
ADAMW = "void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4, (at::native::ADAM_MODE)1, false>>()"


def updating(name: str, kernels: list[str], host_us: float = 0) -> Trace:
    """Steps that end with an optimizer's."""
    job = Trace()
    for _ in range(5):
        with job.step():
            job.op("aten::mm", [[4096, 4096]] * 2, GEMM, 500)
            job.cpu_op("MmBackward0", 1)
            with job.optimizer(name):
                job.host(host_us)
                for kernel in kernels:
                    job.op("aten::_update", kernel=kernel, gpu_us=10, host_us=1)
    return job


def answer(job: Trace, folder: Path, **record: Any) -> Diagnosis:
    job.write(folder / "rank0.json")
    if record:
        (folder / "capture-rank0.json").write_text(json.dumps(record), encoding="utf-8")
    return analyze(folder)


# -- what is the optimizer's ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Optimizer.zero_grad#SGD.zero_grad", "Optimizer.profile_hook_step"])
def test_only_steps_are_the_optimizers(name: str) -> None:
    job = Trace()
    for _ in range(3):
        with job.step():
            job.op("aten::mm", kernel=GEMM, gpu_us=100)
            job.sync()
            with job.annotation(name):
                job.op("aten::zero_", kernel=ADD, gpu_us=20, host_us=400)

    assert not {"optimizer", "optimizer-host"} & set(causes(job))


def test_what_a_closure_computes_is_not_the_optimizers() -> None:
    job = Trace()
    for _ in range(3):
        with job.step(), job.optimizer("LBFGS"):
            job.op("aten::mm", kernel=GEMM, gpu_us=100)
            job.op("aten::relu", kernel=ADD, gpu_us=200)
            with job.backward():
                job.op("aten::threshold_backward", kernel=ADD, gpu_us=300)
            job.op("aten::add_", kernel=ADD, gpu_us=50)

    spent = causes(job)
    assert spent["optimizer"] == pytest.approx(2 * 50_000, rel=0.01)
    assert spent["elementwise"] == pytest.approx(2 * 500_000, rel=0.01)


# -- which one runs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("range_of", "kernel", "name"),
    [("RMSprop", ADD, "RMSprop"), ("", LAMB, "FusedLAMB"), ("", SGD, "SGD"), ("", ADAMW, "AdamW")],
)
def test_the_optimizer_is_named_by_its_range_else_by_its_kernels(range_of: str, kernel: str, name: str) -> None:
    job = updating(range_of, [kernel] * 60)
    built = job.json() if range_of else without(job, "user_annotation")

    assert facts(built)["optimizer_name"].value == name


def test_an_optimizer_that_wraps_another_is_named_by_the_one_that_it_wraps() -> None:
    job = Trace()
    for _ in range(3):
        with job.step(), job.optimizer("ZeroRedundancyOptimizer"):
            job.host(5)
            with job.optimizer("AdamW"):
                job.op("aten::add_", kernel=ADD, gpu_us=20)

    assert facts(job)["optimizer_name"].value == "AdamW"


@pytest.mark.parametrize(
    ("name", "kernels", "torch", "form"),
    [
        ("AdamW", [ADD] * 60, None, "fused"),
        ("SGD", [FOREACH] * 8, None, "fused"),
        ("SGD", [ADD] * 60, "2.1.0", "foreach"),
        ("Adagrad", [ADD] * 60, None, "foreach"),
        ("Adagrad", [ADD] * 60, "2.13.0+cu130", "fused"),
        ("RMSprop", [ADD] * 60, None, "foreach"),
        ("RMSprop", [FOREACH] * 8, None, "none"),
        ("DistributedShampoo", [ADD] * 60, None, "none"),
    ],
)
def test_a_faster_form_is_one_that_torch_has(
    name: str, kernels: list[str], torch: str | None, form: str, tmp_path: Path
) -> None:
    record = {"versions": {"torch": torch}} if torch else {}
    found = {fact.name: fact.value for fact in answer(updating(name, kernels), tmp_path, **record).facts}

    assert found["optimizer_faster_form"] == form


def test_without_a_name_no_form_and_no_gain_is_known(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text(json.dumps(without(updating("", [FOREACH] * 40), "user_annotation")))
    diagnosis = analyze(tmp_path)
    finding = next(f for f in diagnosis.findings if f.rule == "unfused-optimizer")

    assert {f.name: f.value for f in diagnosis.facts}["optimizer_faster_form"] is None
    assert finding.do.startswith("For Adam, AdamW and SGD")
    assert (finding.predicted_speedup, finding.patch) == (None, None)


def test_what_is_assumed_holds_for_the_optimizer_that_runs(tmp_path: Path) -> None:
    diagnosis = answer(updating("SGD", [FOREACH] * 8), tmp_path)
    finding = next(f for f in diagnosis.findings if f.rule == "unfused-optimizer")

    assert "one pass reads and writes" in finding.assumes
    assert "Adam" not in finding.assumes


# -- what is advised -----------------------------------------------------------------------------------------------


def test_adamw_is_told_of_the_trainers_fused_adamw(tmp_path: Path) -> None:
    finding = next(f for f in answer(updating("AdamW", [ADD] * 60), tmp_path).findings if "optimizer" in f.rule)

    assert finding.rule == "single-tensor-optimizer"
    assert finding.patch is not None


@pytest.mark.parametrize(
    ("name", "kernels", "rule", "do"),
    [
        ("SGD", [ADD] * 60, "single-tensor-optimizer", "torch.optim.SGD(..., fused=True)"),
        ("SGD", [FOREACH] * 40, "unfused-optimizer", "torch.optim.SGD(..., fused=True)"),
        ("Adam", [FOREACH] * 40, "unfused-optimizer", "torch.optim.Adam(..., fused=True)"),
        ("RMSprop", [ADD] * 60, "single-tensor-optimizer", "torch.optim.RMSprop(..., foreach=True)"),
    ],
)
def test_other_optimizers_get_their_own_argument(
    name: str, kernels: list[str], rule: str, do: str, tmp_path: Path
) -> None:
    finding = next(f for f in answer(updating(name, kernels), tmp_path).findings if f.rule == rule)

    assert do in finding.do
    assert "adamw" not in finding.do
    assert finding.patch is None
    assert finding.predicted_speedup is not None


@pytest.mark.parametrize(("name", "kernels"), [("DistributedShampoo", [ADD] * 60), ("RMSprop", [FOREACH] * 40)])
def test_what_has_no_faster_form_is_advised_none(name: str, kernels: list[str], tmp_path: Path) -> None:
    diagnosis = answer(updating(name, kernels), tmp_path)

    assert not {"single-tensor-optimizer", "unfused-optimizer"} & {f.rule for f in diagnosis.findings}
    assert any(name in n.because for n in diagnosis.not_advised)


def test_sgd_moves_less_than_adamw_so_its_fused_form_gains_less() -> None:
    left = {
        name: facts(updating(name, [FOREACH] * 40))["least_optimizer_left_share"].value for name in ("AdamW", "SGD")
    }

    assert left["AdamW"] == pytest.approx(28 / 80)
    assert left["SGD"] == pytest.approx(5 / 11)
    assert isinstance(facts(updating("Lion", [FOREACH] * 40))["least_optimizer_left_share"].value, Unknown)


def test_zero_grad_of_a_resnet_is_not_the_optimizers() -> None:
    diagnosis = answer_for("resnet50-v100-383a.json.gz")
    found = {fact.name: fact.value for fact in diagnosis.facts}

    assert (found["optimizer_name"], found["optimizer_kind"]) == ("SGD", "single")
    assert isinstance(found["single_tensor_optimizer_share"], float)
    assert found["single_tensor_optimizer_share"] <= 124.8 / (5 * 151.5)  # Optimizer.step, of the five counted steps
    assert not any("adamw" in f.do for f in diagnosis.findings)
