"""What kernels compute and move, against what their device can do."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from analysed import ADD, FOREACH, GEMM, US, content, edited, facts, timeline
from kineto import BF16, COMMUNICATION, Trace

from diagnose.attribution import attribute
from diagnose.facts import Unknown
from diagnose.hardware import resolve
from diagnose.roofline import Roofline, roofline_of
from diagnose.roofline.calls import Call
from diagnose.roofline.flop_formulas import flops_of
from diagnose.roofline.rows import RooflineRow
from diagnose.roofline.traffic import bytes_of
from diagnose.timeline import timeline_of
from diagnose.trace import read

H100, HBM = 989.4e12, 3352e9  # dense bf16 and memory bandwidth of the builder's device
FLASH = "void pytorch_flash::flash_{}_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t>>(Params)"
CONVOLVE = "sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_kernel_cudnn"
TO_NHWC = "void cudnn::ops::nchwToNhwcKernel<__nv_bfloat16, __nv_bfloat16, float, false, true>(Params)"
SPLIT_K = "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float, __nv_bfloat16, true>(Params)"
TF32 = "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_cublas"
SGEMM = "ampere_sgemm_128x64_nn"
LARGE = [[7168, 2048], [2048, 2048]]  # 896 FLOP/B, above the ridge of 295
LARGE_FLOPS, LARGE_BYTES = 60_129_542_144, 67_108_864
FLAT = [[128256, 256], [256, 2048]]  # 227 FLOP/B, below it


def roofline(built: Any) -> Roofline:
    line = timeline(built)
    return roofline_of(line, resolve(line.device_properties, None))


def one(name: str, dims: Any, kernel: Any, us: float = 100, **more: Any) -> Trace:
    job = Trace(gpu=more.pop("gpu", "NVIDIA H100 80GB HBM3"))
    with job.step():
        job.op(name, dims, kernel, us, **more)
    return job


def row(found: Roofline, family: str, precision: str | None = None) -> RooflineRow:
    rows = [r for r in found.rows if r.family == family and precision in (None, r.precision)]
    assert len(rows) == 1, found.rows
    return rows[0]


# -- the cost of one call ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("m", "n", "k", "flops", "size", "intensity"),
    [
        (7168, 2048, 2048, 60_129_542_144, 67_108_864, 896.0),
        (37888, 8192, 2048, 1_271_310_319_616, 809_500_672, 1570.5),
        (1024, 128256, 2048, 537_944_653_824, 792_199_168, 679.1),
        (128256, 2048, 256, 134_486_163_456, 592_052_224, 227.2),
    ],
)
def test_a_product_reads_its_operands_and_writes_its_result_once(
    m: int, n: int, k: int, flops: int, size: int, intensity: float
) -> None:
    call = Call("aten::mm", [[m, k], [k, n]], (BF16, BF16), ())

    assert flops_of(call, {}) == flops
    assert bytes_of(call, {}) == size
    assert flops / size == pytest.approx(intensity, abs=0.1)


HALF, FLOAT, LONG = "c10::Half", "float", "long int"
LIST = "TensorList"


@pytest.mark.parametrize(
    ("name", "dims", "types", "concrete", "size"),
    [
        ("aten::add", [[64, 32], [64, 32], []], [BF16, BF16, "Scalar"], [], 3 * 2048 * 2),
        ("aten::add", [[64, 32], [32], []], [FLOAT, FLOAT, "Scalar"], [], (2 * 2048 + 32) * 4),
        ("aten::mul", [[64, 1], [1, 32]], [FLOAT, FLOAT], [], (64 + 32 + 2048) * 4),
        ("aten::mul", [[2048], []], [HALF, "double"], [], 2 * 2048 * 2 + 8),
        ("aten::mul", [[2048], [2048]], [HALF, BF16], [], 2048 * (2 + 2 + 4)),
        ("aten::mul", [[2048], []], [LONG, "float"], [], 2048 * (8 + 4) + 4),
        ("aten::mul", [[2048], [], [2048]], [FLOAT, "double", FLOAT], [], 2 * 2048 * 4 + 8),  # out=
        ("aten::mul_", [[2048], [2048]], [FLOAT, FLOAT], [], 3 * 2048 * 4),
        ("aten::gt", [[2048], []], [FLOAT, "Scalar"], [], 2048 * (4 + 1)),
        ("aten::where", [[2048], [2048], [2048]], ["bool", FLOAT, FLOAT], [], 2048 * (1 + 4 + 4 + 4)),
        ("aten::copy_", [[2048], [2048], []], [BF16, FLOAT, "Scalar"], [], 2048 * (2 + 4)),
        ("aten::fill_", [[2048], []], [FLOAT, "Scalar"], [], 2048 * 4),
        ("aten::sum", [[64, 2048], [], [], []], [FLOAT, "ScalarList", "Scalar", ""], [], 64 * 2048 * 4),
        ("aten::_softmax", [[64, 128], [], []], [HALF, "Scalar", "Scalar"], ["", "-1", "False"], 8192 * 4),
        ("aten::_softmax", [[64, 128], [], []], [HALF, "Scalar", "Scalar"], ["", "-1", "True"], 8192 * 6),
        ("aten::_softmax_backward_data", [[64], [64], [], []], [FLOAT, FLOAT, "Scalar", "Scalar"], ["", "", "0", "5"],
         64 * (4 + 4 + 2)),
        ("aten::native_layer_norm", [[64, 128], [], [128]], [BF16, "ScalarList", BF16], [], 2 * 8192 * 2),
        ("aten::native_layer_norm_backward", [[64, 128], [64, 128]], [BF16, BF16], [], 3 * 8192 * 2),
        ("aten::embedding", [[50257, 768], [8, 1024]], [BF16, LONG], [], 8192 * 8 + 2 * 8192 * 768 * 2),
        ("aten::index_select", [[1000, 64], [], [10]], [FLOAT, "Scalar", LONG], ["", "0", ""], 80 + 2 * 640 * 4),
        ("aten::native_dropout", [[2048], [], []], [BF16, "Scalar", "Scalar"], [], 2048 * (2 + 2 + 1)),
        ("aten::addmm", [[64], [32, 16], [16, 64]], [BF16] * 3, [], (64 + 32 * 16 + 16 * 64 + 32 * 64) * 2),
        ("aten::baddbmm", [[4, 8, 8]] * 3, [BF16] * 3, ["", "", "", "0", "1"], 3 * 256 * 2),
        ("aten::_scaled_mm", [[32, 16], [16, 64]], ["c10::Float8_e4m3fn"] * 2, [""] * 6 + ["15"],
         32 * 16 + 16 * 64 + 32 * 64 * 2),
        ("aten::_scaled_dot_product_flash_attention", [[2, 4, 128, 64]] * 3, [BF16] * 3, [], 4 * 65536 * 2 + 4 * 1024),
        ("aten::cudnn_convolution", [[8, 16, 32, 32], [4, 16, 3, 3]], [FLOAT] * 2,
         ["", "", "[1, 1]", "[2, 2]", "[1, 1]"], 4 * (8 * 16 * 32 * 32 + 4 * 16 * 9 + 8 * 4 * 16 * 16)),
    ],
)  # fmt: skip
def test_least_bytes_of_a_call(name: str, dims: Any, types: list[str], concrete: list[str], size: int) -> None:
    assert bytes_of(Call(name, dims, tuple(types), tuple(concrete)), {}) == size


LISTS = [[[100, 10], [24]], [[100, 10], [24]]]


@pytest.mark.parametrize(
    ("name", "dims", "item", "size"),
    [
        ("aten::_foreach_add_", LISTS, 4, 3 * 1024 * 4),
        ("aten::_foreach_norm", LISTS[:1], 2, 1024 * 2),
        ("aten::_foreach_zero_", LISTS[:1], 4, 1024 * 4),
        ("aten::_fused_adamw_", [LISTS[0]] * 4, 4, 7 * 1024 * 4),  # parameters, gradients and two moments
        ("aten::cat", LISTS[:1], 2, 2 * 1024 * 2),
        ("aten::_foreach_add_", LISTS, 0, None),
        ("aten::_foreach_copy_", LISTS, 4, None),
    ],
)
def test_lists_of_tensors_have_the_element_type_of_their_kernel(name: str, dims: Any, item: int, size: Any) -> None:
    assert bytes_of(Call(name, dims, (LIST,) * len(dims), (), item), {}) == size


@pytest.mark.parametrize(
    ("name", "dims", "types"),
    [
        ("aten::nobody_knows", [[64]], [FLOAT]),
        ("mylib::add", [[64], [64]], [FLOAT, FLOAT]),
        ("triton_poi_fused_add_0", [[64]], [FLOAT]),
        ("aten::add", [[64], [64]], ["strange", "strange"]),
        ("aten::mm", [[64, 64], [64, 64]], ["strange", "strange"]),
        ("aten::copy_", [], []),
    ],
)
def test_unmodelled_traffic_is_unknown_and_not_zero(name: str, dims: Any, types: list[str]) -> None:
    assert not bytes_of(Call(name, dims, tuple(types), ()), {})
    job = one(name, dims, ADD, args={"Input type": types})

    assert not roofline(job).rows[0].bytes


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
    assert set(found.bound) == {"unknown"}
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
    assert found.class_[0] == ("compute" if precision else "")


def test_a_float_product_on_tensor_cores_is_held_against_the_tf32_peak() -> None:
    tf32, fp32 = (roofline(one("aten::mm", [[1024] * 2] * 2, name, 50, dtype="float")) for name in (TF32, SGEMM))

    assert tf32.above_roof_ns[0] == pytest.approx(50e3 - 2 * 1024**3 / 494.7e12 * 1e9)
    assert fp32.above_roof_ns[0] == pytest.approx(50e3 - 2 * 1024**3 / 66.9e12 * 1e9)


def test_bf16_on_a_device_without_it_is_not_judged() -> None:
    found = roofline(one("aten::mm", LARGE, "volta_bf16_gemm", 900, gpu="Tesla V100-SXM2-16GB"))

    assert row(found, "gemm").precision == "bf16"
    assert (found.class_[0], found.bound[0]) == ("", "unknown")
    assert row(found, "gemm").tflops == pytest.approx(LARGE_FLOPS / 900e-6 / 1e12)


def test_an_unknown_device_leaves_rates_and_no_judgement() -> None:
    built = content(one("aten::mm", LARGE, GEMM, 100))
    built["deviceProperties"] = [{"id": 0, "name": "NVIDIA Z999"}]

    found = roofline(built)

    assert (found.class_[0], found.bound[0], found.rows[0].above_roof_ns) == ("", "unknown", None)
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


# -- the whole -----------------------------------------------------------------------------------------------------


def mixed(steps: int = 3) -> Trace:
    job = Trace()
    for _ in range(steps):
        with job.step():
            job.op("aten::mm", LARGE, GEMM, 80)
            job.op("aten::add", [[4096, 4096]] * 2, ADD, 60, stream=COMMUNICATION)  # overlaps what follows
            job.op("aten::mm", FLAT, [(GEMM, 90), (SPLIT_K, 10)])
            job.op("mylib::custom", [[64]], ADD, 20)
            job.copy(1 << 20)
            job.collective("allreduce", 1 << 20, 50)
            job.item()
    return job


def test_the_time_of_the_rows_is_the_kernel_time_of_the_ledger() -> None:
    line = timeline(mixed())
    found, ledger = roofline_of(line, resolve(line.device_properties, None)), attribute(line).ns()

    kernel_ns = ledger["gemm"] + ledger["elementwise"]
    assert sum(r.ns for r in found.rows) == int(found.ns.sum()) == kernel_ns
    assert all(0 <= r.sized_ns <= r.ns for r in found.rows)
    assert all(r.above_roof_ns is None or 0 <= r.above_roof_ns <= r.ns for r in found.rows)
    assert sum(w.ns for w in found.matrix) == ledger["gemm"]


def products(steps: int) -> Trace:
    job = Trace()
    for _ in range(steps):
        with job.step():
            job.op("aten::mm", LARGE, [(GEMM, 80), (SPLIT_K, 10)])
            job.sync()
    return job


def test_the_cost_of_the_counted_steps_only() -> None:
    found = row(roofline(products(4)), "gemm")  # the first of three or more steps is not counted

    assert found.flops == pytest.approx(3 * LARGE_FLOPS)
    assert found.kernels == 3 * 2


def test_a_kernel_that_a_step_cuts_counts_in_part() -> None:
    line = timeline(mixed(4))
    found = roofline_of(line, resolve(line.device_properties, None))

    cut = (line.gpu.start < line.windows[0, 0]) & (line.gpu.end > line.windows[0, 0])
    assert cut.any()
    assert 3 * LARGE_FLOPS < (row(found, "gemm").flops or 0) < 3 * (LARGE_FLOPS + 134_486_163_456)


def test_collectives_and_copies_are_left_out() -> None:
    line = timeline(mixed())
    found = roofline_of(line, resolve(line.device_properties, None))

    other = line.gpu.is_communication | line.gpu.is_copy
    assert not found.ns[other].any()
    assert set(found.class_[other]) == {""}
    assert np.isnan(found.above_roof_ns[other]).all()


def test_without_links_the_operator_is_the_innermost_that_was_running() -> None:
    built = content(mixed())
    for event in built["traceEvents"]:
        if event.get("cat") in ("kernel", "cuda_runtime", "cuda_driver"):
            event["args"]["External id"] = 10_000_000 + event["args"].get("correlation", 0)

    linked, unlinked = timeline(mixed()), timeline(built)

    assert roofline(built).operator.tolist() == roofline(mixed()).operator.tolist()
    assert (roofline(built).operator >= 0).sum() == (linked.gpu.launch >= 0).sum() == len(unlinked.gpu)


def test_an_id_of_an_operator_that_had_ended_is_not_believed() -> None:
    job = Trace()
    with job.step():
        job.cpu_op("aten::view", 5, [[64]])
        job.op("aten::mm", LARGE, GEMM, 80)
    wrong = edited(edited(job, "kernel", 0, **{"External id": 2}), "cuda_runtime", 0, **{"External id": 2})

    line = timeline(wrong)

    assert line.trace.names[line.trace.name[roofline(wrong).operator[0]]] == "aten::mm"


def test_a_trace_without_kernels_has_an_empty_roofline() -> None:
    job = Trace(gpu=None)
    with job.step():
        job.cpu_op("aten::mm", 50, LARGE)

    found = roofline(job)

    assert (found.rows, found.sized_share, found.matrix, len(found.operator)) == ((), 0, (), 0)


# -- facts ---------------------------------------------------------------------------------------------------------


def test_facts_of_the_roofline() -> None:
    job = Trace()
    with job.step():
        job.op("aten::mm", LARGE, GEMM, 88)  # 5 us host, 3 us launch, 4 us latency: 100 us
        job.op("aten::mm", FLAT, GEMM, 300)
        job.op("aten::sum", [[64, 64]], "void at::native::reduce_kernel<512, 1>()", 100, blocks=12)

    found = {name: fact.value for name, fact in facts(job).items()}

    step_ns, kernel_ns = 500e3, 488e3
    least_ns = LARGE_FLOPS / H100 * 1e9 + 592_052_224 / HBM * 1e9 + 64 * 64 * 2 / HBM * 1e9
    assert found["roofline_sized_share"] == 1
    assert found["above_roof_share"] == pytest.approx((kernel_ns - least_ns) / step_ns)
    assert found["low_intensity_matmul_share"] == pytest.approx(300e3 / step_ns)
    assert found["under_filled_share"] == pytest.approx(100e3 / kernel_ns)
    assert found["matmul_flops_per_s"] == pytest.approx((LARGE_FLOPS + 134_486_163_456) / 388e-6)


JUDGED = ["above_roof_share", "low_intensity_matmul_share", "under_filled_share"]


@pytest.mark.parametrize("name", [*JUDGED, "matmul_flops_per_s"])
def test_without_shapes_nothing_is_held_against_the_roof(name: str) -> None:
    found = facts(one("aten::mm", None, GEMM))

    value = found[name].value
    assert isinstance(value, Unknown)
    assert "shapes" in value.because
    assert found["roofline_sized_share"].value == 0


@pytest.mark.parametrize("name", JUDGED)
def test_without_a_known_device_nothing_is_held_against_the_roof(name: str) -> None:
    built = content(one("aten::mm", LARGE, GEMM))
    built["deviceProperties"] = [{"id": 0, "name": "NVIDIA Z999"}]

    value = facts(built)[name].value

    assert isinstance(value, Unknown)
    assert "Z999" in value.because


def test_without_launch_grids_filling_is_unknown() -> None:
    built = edited(one("aten::mm", LARGE, GEMM), "kernel", 0, **{"blocks per SM": None})

    value = facts(built)["under_filled_share"].value

    assert isinstance(value, Unknown)
    assert "grids" in value.because


# -- real traces ---------------------------------------------------------------------------------------------------

FOLDER = Path(os.environ.get("DIAGNOSE_REAL_TRACES", ""))
REAL = sorted(FOLDER.glob("*/*.json.gz")) if "DIAGNOSE_REAL_TRACES" in os.environ else []
REAL = [path for path in REAL if path.parent.name != "damaged"]
real = pytest.mark.skipif(not REAL, reason="DIAGNOSE_REAL_TRACES names no folder with traces")


@real
@pytest.mark.parametrize("path", REAL, ids=lambda path: f"{path.parent.name}/{path.name[:24]}")
def test_real_rows_add_up_to_the_ledger(path: Path) -> None:
    line = timeline_of(read(path), 0)
    found, ledger = roofline_of(line, resolve(line.device_properties, None)), attribute(line)

    kinds = {"inductor-template" if k[:2] == ("inductor", "template") else k.family for k in line.gpu.kinds}
    causes = (kinds | {"unclassified-kernel", "optimizer", "clip"}) - {"memset"}
    kernel_ns = sum(ns for cause, ns in ledger.ns().items() if cause in causes)
    assert sum(r.ns for r in found.rows) == kernel_ns
    assert all(r.tflops is None or r.tflops < 2000 for r in found.rows)


@real
def test_real_convolutions_run_above_the_peak_where_winograd_saves_operations() -> None:
    path = next((FOLDER / "resnet50-v100-workers4").glob("*.gz"))
    line = timeline_of(read(path), 0)
    found = roofline_of(line, resolve(line.device_properties, None))

    forward = [r for r in found.rows if r.direction == "forward"]
    flops, ns = sum(r.flops or 0 for r in forward), sum(r.ns for r in forward)
    images = 5 * 32
    assert flops / images == pytest.approx(2 * 4.087e9, rel=1e-3)  # ResNet-50: 4.09 G multiply-adds, fc left out
    assert flops / ns / 1e3 == pytest.approx(12.2, abs=0.2)
    above = [r for r in forward if (r.tflops or 0) > 15.7]  # fp32 peak of a V100
    assert [r.family for r in above] == ["gemm"]
    assert "Winograd" in above[0].note
    assert {r.precision for r in forward} == {"fp32"}
    assert found.sized_share > 0.99


def test_operators_are_listed_with_their_sizes_longest_first() -> None:
    job = Trace()
    with job.step():
        job.op("aten::mm", [[512, 1024], [1024, 2048]], GEMM, 30)
        for _ in range(3):
            job.op("aten::mm", [[4096, 4096], [4096, 4096]], GEMM, 200)
    found = roofline(job).operators

    assert [(row.family, row.kernels) for row in found] == [
        ("mm [4096x4096, 4096x4096]", 3),
        ("mm [512x1024, 1024x2048]", 1),
    ]
    assert found[0].flops == 3 * 2 * 4096**3


def test_a_kernel_belongs_to_the_operator_that_is_running_and_not_to_the_one_that_just_ended() -> None:
    job = Trace()
    with job.step():
        job.op("aten::mm", [[512, 1024], [1024, 2048]], GEMM, 30)
        job.launch(ADD, 900)  # begins on the host at the instant at which the product's operator ends
    found = roofline(job)

    assert [r.kernels for r in found.operators] == [1]
    assert found.sized_share < 0.1
