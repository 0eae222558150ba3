"""What a kernel's name says, by the table of kernel names, and which device a trace was recorded on."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from over_all import over_all

from diagnose.hardware import lookup, table
from diagnose.ranks.collectives.kinds import itemsize
from diagnose.timeline import kernel_names
from diagnose.timeline.kernel_names import (
    COMPUTE_FAMILIES,
    Element,
    KernelNameRow,
    Kind,
    bound_by,
    classify,
    element_bytes,
    element_type,
    first_match,
    leftmost_match,
)

with (Path(__file__).parent / "kernel_cases.csv").open(newline="", encoding="utf-8") as file:
    CASES = list(csv.DictReader(file))
TENSOR_CORE = {"True": True, "False": False, "": None}
ROWS = kernel_names.table()
SECTIONS: dict[str, tuple[Sequence[KernelNameRow], Any]] = {
    "operation": (ROWS.operation, first_match),
    "precision": (ROWS.precision, first_match),
    "element": (ROWS.element, leftmost_match),
    "collective": (ROWS.collective, lambda rows, name: leftmost_match(rows, name.lower())),
}


@pytest.mark.parametrize("section", SECTIONS)
def test_every_row_wins_its_own_examples(section: str) -> None:
    rows, winner = SECTIONS[section]
    lost = [(row.pattern, name) for row in rows for name in row.examples if winner(rows, name) is not row]

    assert lost == []
    assert all(row.examples for row in rows)


def test_a_precision_is_told_by_examples_that_compute() -> None:
    """A precision that the operation never asks for would be dead."""
    told = {name: (classify(name), row) for row in ROWS.precision for name in row.examples}

    assert [name for name, (kind, _) in told.items() if kind.family not in COMPUTE_FAMILIES] == []
    assert [name for name, (kind, row) in told.items() if kind.precision != row.precision] == []


@over_all("case", CASES)
def test_kernel_name(case: dict[str, str]) -> None:
    kind = classify(case["name"])

    told = (kind.family, kind.tensor_core, kind.precision)
    assert told == (case["family"], TENSOR_CORE[case["tensor_core"]], case["precision"])


@pytest.mark.parametrize(
    ("name", "tags"),
    [
        ("void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64>>(Params)", {"flash-2"}),
        ("void flash_bwd_convert_dq_kernel<Flash_bwd_kernel_traits<128>>(Flash_bwd_params)", {"flash-2"}),
        ("void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<int>>>(Params)", {"flash-3"}),
        ("flash_fwd_sm100_bf16_causal_kernel_cutlass_flash_fwd_sm100FlashAttentionForwardSm100_object_0", {"flash-4"}),
        ("flash_bwd_sm100_bf16_kernel_cutlass_flash_bwd_sm100FlashAttentionBackwardSm100_object_0", {"flash-4"}),
        ("void SplitK_Reduction(float*, float*, int)", {"auxiliary"}),
        ("fmha_cutlassB_f16_aligned_64x64_k64_sm80(Params)", {"efficient"}),
        ("triton_per_fused__flash_attn_backward_view_8", set()),
        ("volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1", {"winograd"}),
        ("void fft2d_r2c_32x32<float, false, 1u, true>(float2*)", {"fft"}),
        ("void splitKreduce_kernel<32, 16, int, float, float>(cublasSplitKParams<float>)", {"auxiliary"}),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", {"nccl"}),
        ("ncclReduceScatterRingLLKernel_sum_f32(ncclColl)", {"nccl"}),
        ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)", set()),
    ],
)
def test_what_single_metrics_ask_for_is_a_tag(name: str, tags: set[str]) -> None:
    assert classify(name).tags == tags


@pytest.mark.parametrize(
    ("name", "dtype", "size"),
    [
        ("multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>, FusedAdam<float, 4>>()", "float", 4),
        ("multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOp<c10::BFloat16, 2, float>>()", "bfloat16", 2),
        ("CatArrayBatchedCopy<at::native::(anonymous namespace)::OpaqueType<2u>, unsigned int, 4, 64, 64>(...)", "", 2),
        ("ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "half", 2),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)", "float", 4),
        ("ncclDevKernel_AllReduce_Sum_f64_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "double", 8),
        ("ncclDevKernel_AllReduce_Sum_f8e4m3_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "float8_e4m3fn", 1),
        ("ncclDevKernel_AllReduce_Sum_u32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "uint32", 4),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "", 0),
        ("triton_for_fused_0", "", 0),
    ],
)
def test_the_type_of_the_data_is_in_the_kernels_name(name: str, dtype: str, size: int) -> None:
    assert (element_type(name), element_bytes(name)) == (dtype, size)


@pytest.mark.parametrize("row", [row for row in ROWS.element if row.type], ids=lambda row: row.type)
def test_messages_know_the_width_of_every_type(row: Element) -> None:
    assert itemsize(row.type) == row.bytes


@pytest.mark.parametrize(
    ("kind", "bound"),
    [
        (Kind("gemm", "product", True, "bf16"), "compute"),
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
