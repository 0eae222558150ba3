"""Gradients that no argument tells: which of a convolution's ran, and what those of attention cost."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from analysed import GEMM, timeline
from kineto import Kernels, Trace
from rooflines import CONVOLVE, FLASH, roofline, row

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis
from diagnose.roofline.flops import count

STEM = [[32, 64, 112, 112], [32, 3, 224, 224], [64, 3, 7, 7]]  # gradient, input and weight of ResNet-50's first layer
ONE_GRADIENT = 2 * 32 * 112 * 112 * 64 * 3 * 7 * 7
WGRAD, DGRAD = CONVOLVE.replace("fprop", "wgrad"), CONVOLVE.replace("fprop", "dgrad")
BTHD = [[7, 1024, 32, 64]]
FORWARD = 4 * 7 * 32 * 1024 * 1024 * 64
PASS = [(FLASH.format("bwd_dot_do_o"), 20), (FLASH.format("bwd_dq_dk_dv"), 400), (FLASH.format("bwd_convert_dq"), 30)]


def flops(job: Trace) -> float:
    line = timeline(job)
    found = count(line)
    assert found is not None
    return found.per_step


@pytest.mark.parametrize(
    ("kernels", "gradients"),
    [
        ([(WGRAD, 50)], 1),
        ([(GEMM, 50)], 1),
        ([(DGRAD, 50), (WGRAD, 50)], 2),
        ([(GEMM, 50), (GEMM, 50)], 2),
        ([(WGRAD, 50), (WGRAD, 50)], 1),
        ([], 2),  # without kernels nothing tells
    ],
)
def test_a_matrix_kernel_computes_one_gradient_of_a_convolution(kernels: Kernels, gradients: int) -> None:
    job = Trace()
    with job.step():
        job.op("aten::convolution_backward", STEM, kernels)

    assert flops(job) == gradients * ONE_GRADIENT


def test_the_operators_of_the_gradients_say_which_of_them_ran() -> None:
    job = Trace()
    with job.step(), job.inside("aten::cudnn_convolution_backward", [STEM[1], STEM[0], STEM[2]], "float"):
        job.op("aten::cudnn_convolution_backward_weight", [[], STEM[0], STEM[1]], [(GEMM, 60), (GEMM, 60)])

    assert flops(job) == ONE_GRADIENT


def test_a_recorded_mask_is_believed_whatever_ran() -> None:
    values = {"Concrete Inputs": [""] * 10 + ["[False, True, False]"]}
    job = Trace()
    with job.step():
        job.op("aten::convolution_backward", STEM + [[]] * 8, [(DGRAD, 50), (WGRAD, 50)], args=values)

    assert flops(job) == ONE_GRADIENT


def attention(job: Trace, forwards: Sequence[int], backwards: int) -> None:
    """Forward passes of flash-attn over so many tokens, and backward passes without the sizes of their queries."""
    for tokens in forwards:
        job.op("FlashAttnFunc", [[7, tokens, 32, 64]] * 3, FLASH.format("fwd"), 150)
    for _ in range(backwards):
        job.op("FlashAttnFuncBackward", BTHD, PASS)


def test_a_backward_pass_without_sizes_costs_two_and_a_half_of_its_forward_pass() -> None:
    job = Trace()
    with job.step():
        attention(job, [1024], 1)

    backward = next(r for r in roofline(job).rows if r.direction == "backward")

    assert flops(job) == FORWARD * (1 + 2.5)
    assert (backward.family, backward.flops, backward.sized_ns) == ("attention", 2.5 * FORWARD, backward.ns)


def test_backward_passes_undo_the_last_forward_pass_first() -> None:
    """Of a long and a short forward pass, and a recomputed one of another layer, the last two are undone."""
    job = Trace()
    with job.step():
        attention(job, [1024, 512], 1)  # undoes the one of 512 tokens: a quarter of the scores
        attention(job, [2048], 1)  # computed again just before it is undone

    assert flops(job) == FORWARD * (1 + 0.25 + 4 + 2.5 * (0.25 + 4))


def test_a_causal_pass_has_a_causal_gradient() -> None:
    causal = {"Concrete Inputs": ["", "", "", "0.", "True", "False", ""]}
    job = Trace()
    with job.step():
        job.op(
            "aten::_scaled_dot_product_flash_attention", [[7, 32, 1024, 64]] * 3, FLASH.format("fwd"), 150, args=causal
        )
        job.op("FlashAttnFuncBackward", BTHD, PASS)

    backward = next(r for r in roofline(job).rows if r.direction == "backward")

    assert backward.flops == pytest.approx(2.5 * FORWARD * 1025 / 2048)
    assert backward.bytes is None


@pytest.mark.parametrize("forwards", [[], [1024]])
def test_a_function_that_launches_several_passes_is_not_guessed(forwards: list[int]) -> None:
    job = Trace()
    with job.step():
        job.op("aten::mm", [[4096, 4096]] * 2, GEMM, 900)
        attention(job, forwards, 0)
        job.op("CompiledFunctionBackward", None, PASS + PASS)

    assert row(roofline(job), "gemm").flops == 2 * 4096**3
    assert flops(job) == 2 * 4096**3 + FORWARD * len(forwards)


def unknown_gradients(folder: Path, *, passes: int) -> Diagnosis:
    """Steps of one large product, and of attention whose forward pass is not in the trace."""
    job = Trace()
    for _ in range(4):
        with job.step():
            job.op("aten::mm", [[8192, 8192], [8192, 8192]], GEMM, 9_000)
            attention(job, [], passes)
    job.write(folder / "rank0.json.gz")
    return analyze(folder)


def test_mfu_says_what_it_leaves_out_and_the_waterfall_does_not_call_it_a_loss(tmp_path: Path) -> None:
    found = unknown_gradients(tmp_path, passes=2)
    parts = {part.part: part.ns for part in found.waterfall}

    assert found.mfu.missing == "2 attention backward passes"
    assert parts["attention-not-counted"] == found.steps.count * 2 * 450_000
    assert not {"attention-below-achievable", "attention-below-peak"} & set(parts)
    assert sum(parts.values()) == found.steps.device_time_ns


def test_mfu_that_leaves_nothing_out_says_nothing(tmp_path: Path) -> None:
    found = unknown_gradients(tmp_path, passes=0)

    assert found.mfu.value is not None
    assert not found.mfu.missing
