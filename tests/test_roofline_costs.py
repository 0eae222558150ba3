"""FLOPs and least bytes of one operator call."""

from typing import Any

import pytest
from analysed import ADD
from kineto_host import BF16
from rooflines import LIST, LISTS, one, roofline

from diagnose.roofline.calls import OperatorCall
from diagnose.roofline.flop_formulas import flops_of
from diagnose.roofline.traffic import bytes_of


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
    call = OperatorCall("aten::mm", [[m, k], [k, n]], (BF16, BF16), ())

    assert flops_of(call, {}) == flops
    assert bytes_of(call, {}) == size
    assert flops / size == pytest.approx(intensity, abs=0.1)


HALF, FLOAT, LONG = "c10::Half", "float", "long int"


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
    assert bytes_of(OperatorCall(name, dims, tuple(types), tuple(concrete)), {}) == size


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
    assert bytes_of(OperatorCall(name, dims, (LIST,) * len(dims), (), item), {}) == size


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
    assert not bytes_of(OperatorCall(name, dims, tuple(types), ()), {})
    job = one(name, dims, ADD, args={"Input type": types})

    assert not roofline(job).rows[0].bytes
