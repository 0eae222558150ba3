"""fp16 on a CPU: the type is named where the CPU has no units for it, and promises no more than its products take."""

from pathlib import Path
from typing import Any

import pytest
from kineto import Trace
from remedies.single_gpu_jobs import analysed

from diagnose.diagnosis import Diagnosis, Finding

RULE = "fp16-without-units"
HALF, BF16 = "c10::Half", "c10::BFloat16"
NO_UNITS = {"cpu_multiplies_fp16": False, "cpu_multiplies_bf16": True}
SIZES = [[64, 64], [64, 64]]


def job(dtype: str, dims: Any = SIZES) -> Trace:
    """Steps of 10 ms, of which products take 8."""
    trace = Trace(gpu=None)
    for _ in range(5):
        with trace.step():
            trace.cpu_op("aten::mm", 8000, dims, dtype)
            trace.cpu_op("aten::gelu", 2000, dims and dims[:1], dtype)
    return trace


def found(folder: Path, trace: Trace, settings: dict[str, bool], **record: Any) -> Diagnosis:
    return analysed(folder, trace, {"torch_settings": settings, **record})


def of_type(diagnosis: Diagnosis) -> Finding | None:
    return next((each for each in diagnosis.findings if each.rule == RULE), None)


@pytest.mark.parametrize(
    ("dtype", "settings"),
    [(BF16, NO_UNITS), ("float", NO_UNITS), (HALF, {"cpu_multiplies_fp16": True}), (HALF, {})],
    ids=["bf16", "fp32", "a CPU with units", "an unknown CPU"],
)
def test_another_type_or_another_cpu_is_no_fault(dtype: str, settings: dict[str, bool], tmp_path: Path) -> None:
    assert of_type(found(tmp_path, job(dtype), settings)) is None


def test_the_type_comes_first_within_what_the_products_take(tmp_path: Path) -> None:
    diagnosis = found(tmp_path, job(HALF), NO_UNITS)
    finding = of_type(diagnosis)

    assert finding is not None
    assert (diagnosis.next.rule, finding.severity) == (RULE, "critical")
    worst_and_best = (1 / (1 - 0.8 * 0.65), 1 / (1 - 0.8 * 0.987))
    assert finding.action == "compute in bf16 instead of fp16"
    assert finding.predicted_speedup == pytest.approx(worst_and_best, rel=0.03)
    assert finding.predicted_speedup[1] <= 1 / (1 - 0.8)


def test_a_cpu_without_bf16_is_told_fp32(tmp_path: Path) -> None:
    finding = of_type(found(tmp_path, job(HALF), {"cpu_multiplies_fp16": False, "cpu_multiplies_bf16": False}))

    assert finding is not None
    assert finding.action == "compute in fp32 instead of fp16"


def test_without_types_the_record_tells(tmp_path: Path) -> None:
    weights = {"dtypes": {"float16": 1000}}

    assert of_type(found(tmp_path / "half", job(HALF, None), NO_UNITS, model=weights)) is not None
    assert of_type(found(tmp_path / "unknown", job(HALF, None), NO_UNITS)) is None


def test_a_trainer_gets_its_settings(tmp_path: Path) -> None:
    finding = of_type(found(tmp_path, job(HALF), NO_UNITS, training_loop="transformers Trainer"))

    assert finding is not None
    assert finding.patch is not None
    assert finding.patch.set == {"bf16": True, "fp16": False}
