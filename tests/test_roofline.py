"""What kernels compute and move, against what their device can do."""

from typing import Any

import pytest
from analysed import ADD, FOREACH, GEMM, US, content
from kineto import Trace
from rooflines import (
    CONVOLVE,
    FLASH,
    FLAT,
    LARGE,
    LARGE_BYTES,
    LARGE_FLOPS,
    LIST,
    LISTS,
    SGEMM,
    SPLIT_K,
    TF32,
    TO_NHWC,
    one,
    roofline,
    row,
)

# -- kernels -------------------------------------------------------------------------------------------------------


def test_a_product_above_the_ridge_computes_and_below_it_moves() -> None:
    job = Trace()
    with job.step():
        job.op("aten::mm", LARGE, GEMM, 80)
        job.op("aten::mm", FLAT, GEMM, 200)
        job.op("aten::add", [[4096, 4096]] * 2, ADD, 40)

    found = roofline(job)

    assert found.class_.tolist() == ["compute", "memory", "memory"]
    assert found.bound.tolist() == ["compute", "memory", "memory"]
    assert row(found, "gemm").precision == "bf16"
    assert row(found, "elementwise").tflops is None
    assert row(found, "elementwise").gbs == pytest.approx(3 * 4096**2 * 2 / 40e3)


def test_time_above_the_roof_is_what_neither_flops_nor_bytes_explain() -> None:
    mn5 = content(one("aten::mm", FLAT, GEMM, 500))
    mn5["deviceProperties"] = [{"id": 0, "name": "NVIDIA H100", "totalGlobalMem": 68_100_000_000, "numSms": 132}]

    found = row(roofline(mn5), "gemm")

    assert found.above_roof_ns == pytest.approx(500_000 - 363_000, abs=100)  # 592 MB at 1,631 GB/s
    assert found.class_ == "memory"


def test_the_share_of_the_roof_names_the_bound() -> None:
    job = Trace()
    with job.step():
        for us, blocks in ((61, 1056), (130, 1056), (130, 100), (9, 1056)):
            job.op("aten::mm", LARGE if us > 10 else [[64, 64]] * 2, GEMM, us, blocks=blocks)

    assert roofline(job).bound.tolist() == ["compute", "unknown", "under-filled", "latency"]


def test_an_operator_with_three_kernels_costs_what_it_costs_once() -> None:
    dims = [[7, 32, 1024, 64]] * 4
    kernels = [(FLASH.format("bwd_dot_do_o"), 20), (FLASH.format("bwd_dq_dk_dv"), 400), (FLASH.format("bwd_dq"), 30)]

    found = row(roofline(one("aten::_scaled_dot_product_flash_attention_backward", dims, kernels)), "attention")

    assert (found.flops, found.kernels, found.ns) == (150_323_855_360, 3, 450 * US)
    assert found.tflops == pytest.approx(150_323_855_360 / 450e-6 / 1e12)
    assert found.direction == "backward"


def test_a_split_product_runs_at_the_precision_of_its_longest_kernel() -> None:
    found = row(roofline(one("aten::mm", LARGE, [(TF32, 300), (SPLIT_K, 20)], dtype="float")), "gemm")

    assert (found.precision, found.kernels, found.flops) == ("tf32", 2, LARGE_FLOPS)
    assert found.bytes == 2 * LARGE_BYTES


def test_layout_copies_of_a_convolution_do_no_work_and_are_all_above_the_roof() -> None:
    args = {"Concrete Inputs": ["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]}
    dims = [[32, 256, 56, 56], [256, 256, 3, 3], [], [], [], [], [], [], []]

    found = roofline(one("aten::convolution", dims, [(TO_NHWC, 30), (CONVOLVE, 60)], args=args))

    assert row(found, "conv").flops == 2 * 32 * 256 * 256 * 9 * 56 * 56
    assert row(found, "copy").flops == row(found, "copy").bytes == 0
    assert row(found, "copy").above_roof_ns == 30 * US
    assert found.class_.tolist() == ["", "compute"]
    assert found.sized_share == 1


def test_an_unknown_operator_inside_a_counted_one_shares_its_cost() -> None:
    job = Trace()
    dims = [[32, 64, 56, 56], [32, 64, 56, 56], [64, 64, 1, 1]]
    with job.step(), job.inside("aten::cudnn_convolution_backward", dims, "float"):
        job.op("aten::cudnn_convolution_backward_input", [[], *dims[1:]], SGEMM, 100)
        job.op("aten::cudnn_convolution_backward_weight", [[], *dims[:2]], SGEMM, 300)

    found = row(roofline(job), "gemm")

    assert found.flops == 2 * 2 * 32 * 64 * 64 * 56 * 56
    assert (found.direction, found.precision, found.sized_ns) == ("backward", "fp32", 400 * US)


def test_causal_attention_counts_the_scores_it_needs() -> None:
    dims = [[7, 32, 1024, 64]] * 3
    args = {"Concrete Inputs": ["", "", "", "0.", "True", "False", ""]}

    found = row(roofline(one("aten::_scaled_dot_product_flash_attention", dims, FLASH.format("fwd"), args=args)),
                "attention")  # fmt: skip

    assert found.flops == 60_129_542_144 * 1025 / 2048


def test_lists_take_their_element_size_from_the_kernel() -> None:
    args = {"Input type": [LIST, LIST, "Scalar"]}

    found = row(roofline(one("aten::_foreach_add_", [*LISTS, []], FOREACH, args=args)), "optimizer")

    assert found.bytes == 3 * 1024 * 4


def test_triton_kernels_and_operators_without_shapes_have_no_known_cost() -> None:
    job = Trace()
    with job.step():
        job.op("aten::mm", None, GEMM, 60)
        job.op("triton_poi_fused_add_0", [[64], [64]], "triton_poi_fused_add_0", 20, args={"kernel_flop": 1e9})
        job.launch(ADD, 20)

    found = roofline(job)

    assert found.class_.tolist() == ["", "", ""]
    assert set(found.bound.tolist()) == {"unknown"}
    assert (found.sized_share, found.matrix) == (0, ())
    assert all(r.flops is None and r.bytes is None and r.above_roof_ns is None for r in found.rows)


# -- precision -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "dtype", "gpu", "precision"),
    [
        (GEMM, "c10::BFloat16", "NVIDIA H100 80GB HBM3", "bf16"),
        (TF32, "float", "NVIDIA H100 80GB HBM3", "tf32"),
        (SGEMM, "float", "NVIDIA H100 80GB HBM3", "fp32"),
        ("unknown_gemm_mm_kernel", "c10::Half", "NVIDIA H100 80GB HBM3", "fp16"),
        ("unknown_gemm_mm_kernel", "float", "NVIDIA H100 80GB HBM3", ""),
        ("unknown_gemm_mm_kernel", "float", "Tesla V100-SXM2-16GB", "fp32"),  # which has no TF32
    ],
)
def test_the_precision_that_ran(kernel: str, dtype: str, gpu: str, precision: str) -> None:
    found = roofline(one("aten::mm", LARGE, kernel, 300, dtype=dtype, gpu=gpu))

    assert row(found, "gemm").precision == precision
    assert found.class_.tolist()[0] == ("compute" if precision else "")


def test_a_float_product_on_tensor_cores_is_held_against_the_tf32_peak() -> None:
    tf32, fp32 = (roofline(one("aten::mm", [[1024] * 2] * 2, name, 50, dtype="float")) for name in (TF32, SGEMM))

    assert tf32.above_roof_ns[0] == pytest.approx(50e3 - 2 * 1024**3 / 494.7e12 * 1e9)
    assert fp32.above_roof_ns[0] == pytest.approx(50e3 - 2 * 1024**3 / 66.9e12 * 1e9)


def test_bf16_on_a_device_without_it_is_not_judged() -> None:
    found = roofline(one("aten::mm", LARGE, "volta_bf16_gemm", 900, gpu="Tesla V100-SXM2-16GB"))

    assert row(found, "gemm").precision == "bf16"
    assert (found.class_.tolist()[0], found.bound.tolist()[0]) == ("", "unknown")
    assert row(found, "gemm").tflops == pytest.approx(LARGE_FLOPS / 900e-6 / 1e12)


def test_an_unknown_device_leaves_rates_and_no_judgement() -> None:
    built = content(one("aten::mm", LARGE, GEMM, 100))
    built["deviceProperties"] = [{"id": 0, "name": "NVIDIA Z999"}]

    found = roofline(built)

    assert (found.class_.tolist()[0], found.bound.tolist()[0], found.rows[0].above_roof_ns) == ("", "unknown", None)
    assert found.rows[0].tflops == pytest.approx(LARGE_FLOPS / 100e-6 / 1e12)
    assert found.matrix[0].flops == LARGE_FLOPS


@pytest.mark.parametrize(
    ("dims", "us", "note"),
    [(LARGE, 30, "above the 989.4 TFLOP/s bf16 peak"), ([[4096, 64], [64, 4096]], 5, "operands stay in the cache")],
)
def test_figures_beyond_the_datasheet_are_explained(dims: Any, us: float, note: str) -> None:
    assert note in row(roofline(one("aten::mm", dims, GEMM, us)), "gemm").note


def test_winograd_convolutions_do_less_than_is_counted() -> None:
    args = {"Concrete Inputs": ["", "", "[1, 1]", "[1, 1]", "[1, 1]"]}
    kernels = [("void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(Params)", 10), (SGEMM, 90)]
    dims = [[32, 256, 14, 14], [256, 256, 3, 3]]

    found = roofline(one("aten::cudnn_convolution", dims, kernels, dtype="float", args=args))

    assert {r.family for r in found.rows} == {"conv", "gemm"}
    assert all("100 % of the time is in Winograd or FFT" in r.note for r in found.rows)
