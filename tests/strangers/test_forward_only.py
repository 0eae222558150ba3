"""Captures of what does not train: a model left in training mode is a note, and nothing is advised about training."""

import json
import re
from pathlib import Path

import pytest
from analysed import ADD, facts
from kineto import Trace
from profiled_jobs import traced

from diagnose import analyze
from diagnose.diagnosis import Diagnosis

BOTH = "dropout and BatchNorm"
REAL = {  # job of `forward_jobs.py`: the layers in training mode
    "train-no-grad": BOTH,
    "train-inference": BOTH,
    "train-with-grad": BOTH,
    "norm": "BatchNorm",
    "attention": "dropout",
    "eval-no-grad": "none",
    "eval-inference": "none",
    "eval-with-grad": "none",
    "norm-without-statistics": "none",
    "attention-eval": "none",
}
OF_TRAINING = re.compile(
    r"GradScaler|[Ll]oss scal|optimizer|gradient|micro-batch|batch_size|larger batch|in the Trainer"
)


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return traced(Path(__file__).parent / "forward_jobs.py", tmp_path_factory.mktemp("traces"))


def without_arguments(path: Path) -> Path:
    """The same trace as a profiler leaves it that records no arguments."""
    document = json.loads(path.read_text(encoding="utf-8"))
    for event in document["traceEvents"]:
        for key in ("Concrete Inputs", "Input Dims", "Input type"):
            event.get("args", {}).pop(key, None)
    bare = path.with_name(f"bare-{path.name}")
    bare.write_text(json.dumps(document), encoding="utf-8")
    return bare


def noted(diagnosis: Diagnosis) -> list[str]:
    return [each.says for each in diagnosis.findings if each.rule == "layers-in-training-mode"]


@pytest.mark.capture
@pytest.mark.parametrize("job", REAL)
def test_a_forward_pass_in_training_mode_is_a_note(job: str, traces: Path) -> None:
    found = analyze(traces / f"{job}.json").diagnosis
    layers = {fact.name: fact.value for fact in found.facts}["layers_in_training_mode"]

    assert found.trains is False
    assert layers == REAL[job]
    says = f"No backward pass follows, and the model is in training mode: {layers}."
    assert noted(found) == ([] if layers == "none" else [says])
    assert {each.severity for each in found.findings if each.rule == "layers-in-training-mode"} <= {"info"}


@pytest.mark.capture
@pytest.mark.parametrize("job", ["train-no-grad", "eval-no-grad"])
def test_without_arguments_dropout_is_told_by_its_random_numbers(job: str, traces: Path) -> None:
    found = analyze(without_arguments(traces / f"{job}.json")).diagnosis

    assert bool(noted(found)) == (job == "train-no-grad")


@pytest.mark.capture
def test_a_model_that_trains_is_in_training_mode_as_it_should_be(traces: Path) -> None:
    found = analyze(traces / "trains.json").diagnosis

    assert found.trains is True
    assert noted(found) == []


@pytest.mark.capture
def test_nothing_is_advised_about_training(traces: Path) -> None:
    for job in REAL:
        found = analyze(traces / f"{job}.json").diagnosis
        told = [text for each in found.findings for text in (each.says, each.do, each.action)]
        assert [text for text in told if OF_TRAINING.search(text)] == [], job


@pytest.mark.parametrize(
    ("kernel", "layers"),
    [
        ("void cudnn::bn_fw_tr_1C11_singleread<float, 512, true, 1, 2, 0>(float)", "BatchNorm"),
        ("void cudnn::bn_fw_inf_1C11_kernel_NCHW<float, float, true, 1>(float)", "none"),
        ("void at::native::batch_norm_collect_statistics_kernel<at::native::InvStd, float>(float)", "BatchNorm"),
        ("void at::native::(anonymous namespace)::fused_dropout_kernel_vec<float, float, 1, 4>(float)", "dropout"),
        (ADD, "none"),
    ],
)
def test_on_a_gpu_the_kernels_tell_too(kernel: str, layers: str) -> None:
    job = Trace(trains=False)
    for _ in range(2):
        with job.step():
            job.op("aten::cudnn_batch_norm", [[8, 16, 30, 30]], kernel, 100)

    assert facts(job)["layers_in_training_mode"].value == layers


@pytest.mark.parametrize("precision", ["volta_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"])
def test_the_change_of_type_is_typed_without_a_scaler_or_a_loss(precision: str, tmp_path: Path) -> None:
    gpu = "Tesla V100-SXM2-16GB" if precision.startswith("volta") else "NVIDIA A100-SXM4-80GB"
    job = Trace(gpu=gpu, trains=False)
    for _ in range(4):
        with job.step():
            job.op("aten::mm", [[4096, 4096], [4096, 4096]], precision, 900, dtype="float")
            job.op("aten::relu", [[4096, 4096]], ADD, 50, dtype="float")

    found = analyze(job.write(tmp_path / "trace.json")).diagnosis
    typed = [str(line) for each in found.findings if each.patch for line in each.patch.set.values()]

    assert found.trains is False
    assert any("torch.autocast" in line for line in typed)
    assert [line for line in typed if "GradScaler" in line or "loss" in line] == []
