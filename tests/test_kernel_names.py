"""What a kernel's name says, and which device a trace was recorded on."""

import csv
from pathlib import Path
from typing import Any

import pytest

from diagnose.hardware import lookup, table
from diagnose.roofline.precisions import element_bytes, precision
from diagnose.timeline.kernel_names import Kind, bound_by, classify

with (Path(__file__).parent / "kernel_cases.csv").open(newline="", encoding="utf-8") as file:
    CASES = list(csv.DictReader(file))
with (Path(__file__).parent / "precision_cases.csv").open(newline="", encoding="utf-8") as file:
    PRECISIONS = list(csv.DictReader(file))
TENSOR_CORE = {"True": True, "False": False, "": None}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"][:60])
def test_kernel_name(case: dict[str, str]) -> None:
    kind = classify(case["name"])

    assert kind == Kind(case["class"], case["sub"], TENSOR_CORE[case["tensor_core"]], case["dtype"] or None)


@pytest.mark.parametrize("case", PRECISIONS, ids=lambda case: case["name"][:60])
def test_what_a_matrix_kernel_computes_in(case: dict[str, str]) -> None:
    assert precision(case["name"]) == case["precision"]


@pytest.mark.parametrize("case", [case for case in CASES if case["dtype"]], ids=lambda case: case["name"][:60])
def test_the_precision_is_the_one_of_the_kind(case: dict[str, str]) -> None:
    assert precision(case["name"]) == case["dtype"]


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>, FusedAdamMathFunctor<float, 4>>()", 4),
        ("multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpListAlphaFunctor<c10::BFloat16, 2, 2, 0>>()", 2),
        ("CatArrayBatchedCopy<at::native::(anonymous namespace)::OpaqueType<2u>, unsigned int, 4, 64, 64>(...)", 2),
        ("triton_for_fused_0", 0),
    ],
)
def test_the_element_size_of_lists_is_in_the_kernels_name(name: str, size: int) -> None:
    assert element_bytes(name) == size


@pytest.mark.parametrize(
    ("kind", "bound"),
    [
        (Kind("gemm", "bf16", True, "bf16"), "compute"),
        (Kind("conv", "conv"), "compute"),
        (Kind("attention", "fwd", True), "compute"),
        (Kind("inductor", "template", True), "compute"),
        (Kind("inductor", "pointwise", False), "memory"),
        (Kind("norm", "norm", False), "memory"),
        (Kind("other", "other"), "memory"),
    ],
)
def test_what_bounds_a_kind(kind: Kind, bound: str) -> None:
    assert bound_by(kind) == bound


@pytest.mark.parametrize("name", ["", "??", "my kernel<int>", "_ZN3foo3barEv.part.0", "λ"])
def test_a_name_that_nobody_knows_is_unclassified(name: str) -> None:
    assert classify(name) == Kind("other", "other")


def device(name: str, memory: int = 0, sms: int = 0) -> dict[str, Any]:
    recorded = {"totalGlobalMem": memory, "numSms": sms}
    return {"name": name} | {key: value for key, value in recorded.items() if value}


@pytest.mark.parametrize(
    ("properties", "key"),
    [
        (device("NVIDIA H100 80GB HBM3", 85_017_755_648, 132), "H100-SXM5-80GB"),
        (device("NVIDIA H100", 68_100_000_000, 132), "H100-64GB-MN5"),
        (device("NVIDIA H100", 101_997_215_744, 132), "H100-96GB-HBM2e"),
        (device("NVIDIA H100 PCIe", 85_000_000_000, 114), "H100-PCIe-80GB"),
        (device("NVIDIA GH200 480GB", 102_600_000_000, 132), "GH200-96GB"),
        (device("Tesla V100-SXM2-16GB", 16_945_512_448, 80), "V100-SXM2-16GB"),
        (device("NVIDIA A100-SXM4-80GB"), "A100-SXM4-80GB"),
        (device("AMD Instinct MI300X OAM", 206_141_652_992, 304), "MI300X"),
        (device("", 206_141_652_992, 304), "MI300X"),
    ],
)
def test_known_device(properties: dict[str, Any], key: str) -> None:
    found = lookup(properties)

    assert found is not None
    assert found.key == key


@pytest.mark.parametrize(
    "properties",
    [
        {},
        device(""),
        device("", 206_141_652_992),
        device("", 0, 304),
        device("NVIDIA H100", 140_000_000_000, 132),
        device("NVIDIA H100 80GB HBM3", 85_017_755_648, 60),
        device("NVIDIA Z999"),
        device("H100"),
    ],
)
def test_a_device_that_fits_no_row_is_unknown(properties: dict[str, Any]) -> None:
    assert lookup(properties) is None


def test_peaks_are_dense_and_say_where_they_come_from() -> None:
    h100 = lookup(device("NVIDIA H100 80GB HBM3"))
    v100 = lookup(device("Tesla V100-SXM2-16GB"))

    assert h100 is not None
    assert v100 is not None
    assert (h100.matrix_tflops, h100.matrix_dtype) == (989.4, "bf16")
    assert (v100.matrix_tflops, v100.matrix_dtype) == (125, "fp16")
    assert all(gpu.source for gpu in table())
    assert len({gpu.key for gpu in table()}) == len(table())
