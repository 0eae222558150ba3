"""FLOPs of operator calls by their recorded shapes, and that nothing is counted twice."""

import contextlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from analysed import GEMM, timeline
from kineto import Trace

from diagnose.analysis import analyze
from diagnose.roofline.calls import OperatorCall
from diagnose.roofline.flop_formulas import FORMULAS, causal_share, direction, flops_of
from diagnose.roofline.flops import CountedFlops, count, counted
from diagnose.roofline.nests import parents
from diagnose.roofline.owners import around, directly_inside

X, W = [32, 64, 56, 56], [128, 64, 3, 3]
CONV = 2 * 32 * 128 * 64 * 9 * 28 * 28  # of X and W with stride 2 and padding 1
QUERIES = [7, 32, 1024, 64]  # batch, heads, tokens, width
BTHD = [7, 1024, 32, 64]
SDPA = 4 * 7 * 32 * 1024 * 1024 * 64


def call(name: str, dims: Any, concrete: Any = (), dtype: str = "c10::BFloat16") -> OperatorCall:
    return OperatorCall(name, dims, tuple(dtype if d else "" for d in dims), tuple(concrete))


@pytest.mark.parametrize(
    ("name", "dims", "concrete", "flops"),
    [
        ("aten::mm", [[7168, 2048], [2048, 2048]], [], 60_129_542_144),
        ("aten::addmm", [[2048], [7168, 2048], [2048, 2048]], [], 60_129_542_144),
        ("aten::_addmm_activation", [[2048], [7168, 2048], [2048, 2048]], [], 60_129_542_144),
        ("aten::mv", [[512, 256], [256]], [], 2 * 512 * 256),
        ("aten::addmv", [[512], [512, 256], [256]], [], 2 * 512 * 256),
        ("aten::dot", [[4096], [4096]], [], 2 * 4096),
        ("aten::_grouped_mm", [[4096, 512], [8, 512, 256], [8]], [], 2 * 4096 * 512 * 256),
        ("aten::_grouped_mm", [[8, 128, 512], [8, 512, 256]], [], 2 * 8 * 128 * 512 * 256),
        ("aten::_grouped_mm", [[512, 4096], [4096, 256], [8]], [], 2 * 512 * 4096 * 256),
        ("aten::cudnn_convolution", [X, W], ["", "", "[1, 1]", "[2, 2]", "[1, 1]"], CONV),
        ("aten::miopen_convolution", [X, W, []], ["", "", "", "[1, 1]", "[2, 2]", "[1, 1]"], CONV),
        ("aten::_convolution", [X, W, []], ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False"], CONV),
        ("aten::convolution", [X, W, []], ["", "", "", "[2]", "[1]", "[1]", "True"], 2 * 32 * math.prod(W) * 56 * 56),
        ("aten::_flash_attention_forward", [BTHD] * 3, [], SDPA),
        ("aten::_efficient_attention_forward", [BTHD] * 3 + [[]] * 2, [], SDPA),
        ("flash_attn::_flash_attn_forward", [BTHD] * 3, [], SDPA),
        ("flash_attn_3::bwd", [BTHD] * 5, [], SDPA * 5 // 2),
        ("aten::_scaled_dot_product_cudnn_attention", [QUERIES] * 3, [], SDPA),
        ("aten::_scaled_dot_product_cudnn_attention_backward", [QUERIES] * 4, [], 150_323_855_360),
    ],
)
def test_flops_of_a_call(name: str, dims: Any, concrete: Any, flops: int) -> None:
    assert flops_of(call(name, dims, concrete), {}) == flops


@pytest.mark.parametrize(
    ("name", "dims"),
    [
        ("aten::linear", [[8, 16], [4, 16]]),  # runs as mm or addmm
        ("aten::mm", [[8, 16], [4, 16]]),
        ("aten::mm", []),
        ("aten::convolution", [X, W]),  # the stride was not recorded
        ("aten::_efficient_attention_forward", [[1, 4096, 32, 64]] * 3 + [[], [9]]),  # ragged: lengths are values
        ("flash_attn::_flash_attn_forward", [[4096, 32, 64]] * 3),
    ],
)
def test_what_the_shapes_do_not_say_is_unknown(name: str, dims: Any) -> None:
    assert flops_of(call(name, dims), {}) is None


def test_keys_and_values_may_have_fewer_heads_and_other_widths() -> None:
    dims = [[2, 32, 128, 192], [2, 8, 256, 192], [2, 8, 256, 128]]

    found = flops_of(call("aten::_scaled_dot_product_flash_attention", dims), {})

    assert found == 2 * 2 * 32 * 128 * 256 * (192 + 128)


def test_four_bit_operands_are_packed_in_pairs() -> None:
    found = flops_of(call("aten::_scaled_mm", [[128, 64], [64, 256]], dtype="c10::Float4_e2m1fn_x2"), {})

    assert found == 2 * 128 * 128 * 256


@pytest.mark.parametrize(
    ("name", "dims", "at", "value", "share"),
    [
        ("aten::_scaled_dot_product_flash_attention", [QUERIES] * 3, 4, "True", 1025 / 2048),
        ("aten::_scaled_dot_product_flash_attention", [QUERIES] * 3, 4, "False", 1),
        ("aten::_scaled_dot_product_flash_attention_backward", [QUERIES] * 4, 11, "True", 1025 / 2048),
        ("aten::_flash_attention_forward", [BTHD] * 3, 8, "True", 1025 / 2048),
        ("aten::_efficient_attention_forward", [BTHD] * 3, 9, "1", 1025 / 2048),
        ("aten::_scaled_dot_product_flash_attention", [QUERIES, [7, 32, 99, 64]], 4, "True", 1),
        ("aten::mm", [[8, 8], [8, 8]], 4, "True", 1),
    ],
)
def test_causal_attention_needs_half_of_the_scores(name: str, dims: Any, at: int, value: str, share: float) -> None:
    assert causal_share(call(name, dims, [""] * at + [value])) == share


def test_gradients_are_told_from_results() -> None:
    assert direction("aten::convolution_backward") == direction("flash_attn_3::bwd") == "backward"
    assert direction("aten::cudnn_convolution") == direction("FlashAttnFunc") == "forward"
    assert direction("aten::mm") == direction("aten::add") == ""
    assert all(name.startswith(("aten::", "flash_attn", "FlashAttn")) for name in FORMULAS)


def count_of(job: Trace) -> CountedFlops | None:
    line = timeline(job)
    return count(line)


def nested(*names: str, dims: Any, args: Any = None) -> Trace:
    """Each operator inside the one before; the last launches a kernel."""
    job = Trace()
    with job.step():
        if len(names) == 1:
            job.op(names[0], dims, GEMM, 50, args=args)
        else:
            with job.inside(names[0], dims, args=args):
                job.op(names[1], dims, GEMM, 50)
    return job


@pytest.mark.parametrize(
    ("outer", "inner", "dims"),
    [
        ("aten::_scaled_dot_product_cudnn_attention", "aten::_cudnn_attention_forward", [QUERIES] * 3),
        ("FlashAttnFunc", "flash_attn::_flash_attn_forward", [BTHD] * 3),
        ("flash_attn_3::_flash_attn_forward", "flash_attn_3::fwd", [BTHD] * 3),
    ],
)
def test_a_counted_operator_inside_another_is_counted_once(outer: str, inner: str, dims: Any) -> None:
    found = count_of(nested(outer, inner, dims=dims))

    assert found is not None
    assert found.per_step == SDPA


def test_the_outer_operator_counts_where_the_inner_one_has_no_sizes() -> None:
    args = {"Concrete Inputs": ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False"]}

    found = count_of(nested("aten::convolution", "aten::cudnn_convolution", dims=[X, W], args=args))

    assert found is not None
    assert found.per_step == CONV
    assert found.unsized == 1


def test_an_outer_operator_that_does_more_keeps_the_rest() -> None:
    job, dims = Trace(), [[64, 64], [64, 64]]
    with job.step(), job.inside("aten::mm", [[64, 128], [128, 64]]):
        job.op("aten::mm", dims, GEMM, 10)

    line = timeline(job)
    found = counted(line)

    assert found is not None
    assert found.flops.tolist() == [2 * 64**3, 2 * 64**3]


def test_operators_of_other_threads_and_siblings_are_not_nested() -> None:
    job, dims = Trace(), [[64, 64], [64, 64]]
    with job.step(), job.inside("aten::mm", dims):
        with job.thread(99):
            job.op("aten::mm", dims, GEMM, 10)
        for _ in range(5):
            job.op("aten::mm", dims, GEMM, 10)
    trace = timeline(job).trace
    rows = (trace.rows_of("cpu_op")).nonzero()[0]

    up = parents(trace, rows)

    assert up.tolist() == [-1, -1, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("levels", [3, 60, 200])
def test_an_operator_behind_a_deep_nest_is_in_what_still_runs(levels: int) -> None:
    job = Trace()
    with job.step(), job.inside("aten::outer"):
        for _ in range(3):
            with contextlib.ExitStack() as nest:
                for _ in range(levels):
                    nest.enter_context(job.inside("aten::nested"))
                    job.host(1)
            job.op("aten::mm", [[64, 64], [64, 64]], GEMM, 10)
            job.op("aten::mm", [[64, 64], [64, 64]], GEMM, 10)
    trace = timeline(job).trace
    rows = np.flatnonzero(trace.rows_of("cpu_op"))
    rows = rows[np.lexsort((-trace.dur[rows], trace.ts[rows]))]
    nested = [trace.names[name] == "aten::nested" for name in trace.name[rows]]

    deeper = [at - 1 if nested[at] and nested[at - 1] else 0 for at in range(1, len(rows))]
    assert parents(trace, rows).tolist() == [-1, *deeper]


@pytest.mark.parametrize("seed", range(20))
def test_directly_inside_are_those_with_the_range_as_parent(seed: int) -> None:
    drawn = np.random.default_rng(seed)
    job = Trace()
    with job.step():
        for _ in range(40):
            job.cpu_op("aten::mm", 1)
    trace = timeline(job).trace
    rows = np.flatnonzero(trace.rows_of("cpu_op"))
    trace.ts[rows], trace.dur[rows] = drawn.integers(0, 60, len(rows)), drawn.integers(0, 20, len(rows))
    outer = np.sort(drawn.choice(rows, 6, replace=False))

    up = parents(trace, rows)

    for row, found in directly_inside(trace, outer, rows):
        expected = rows[(up >= 0) & (rows[up] == row)]
        assert sorted(found.tolist()) == expected.tolist()


def test_what_begins_outside_of_all_ranges_is_around_none() -> None:
    job = Trace()
    with job.step():
        job.cpu_op("before", 10)
        with job.inside("outer"):
            job.cpu_op("within", 10)
        job.cpu_op("after", 10)
    trace = timeline(job).trace
    of = {name: np.flatnonzero(trace.named(name.__eq__)) for name in ("before", "outer", "within", "after")}

    found = around(trace, of["outer"], np.concatenate((of["before"], of["within"], of["after"])))

    assert found.tolist() == [-1, int(of["outer"][0]), -1]


def test_where_nothing_runs_again_no_digit_says_that_it_does(tmp_path: Path) -> None:
    job = Trace()
    for _ in range(3):
        with job.step():
            job.op("aten::mm", [[1630, 1031], [1031, 3203]], GEMM, 2867.3)
            job.sync()
    mfu = analyze(job.write(tmp_path / "rank0.json")).mfu

    assert mfu is not None
    assert mfu.executed_value == mfu.value
