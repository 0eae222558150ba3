"""Facts that recognise a habit of the training code: the optimizer, unfused operators, copies, loader, and DDP."""

from typing import Any

import pytest
from analysed import ADD, FOREACH, FUSED, GEMM, MS, SOFTMAX, facts
from kineto import Trace

from diagnose.facts import Unknown

SCORES = [8, 12, 512, 512]
HIDDEN = [8, 512, 768]
LOGITS = [4096, 32_000]
LOG_SOFTMAX = "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float>(float*)"
SILU = "void at::native::vectorized_elementwise_kernel<4, silu_kernel(at::TensorIteratorBase&)>(int)"
NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int)"


def steps(*operators: tuple[str, Any, str, float], count: int = 2) -> Trace:
    """Each operator launches one kernel of the given microseconds; the host runs ahead."""
    job = Trace()
    for _ in range(count):
        with job.step():
            for name, dims, kernel, us in operators:
                job.op(name, dims, kernel, us)
    return job


def share(job: Trace, name: str) -> float:
    """The share, as microseconds of the step that it stands for."""
    found = facts(job)
    value, step_ns = found[name].value, found["step_time_ns"].value
    assert not isinstance(value, Unknown | str)
    assert not isinstance(step_ns, Unknown | str)
    return float(value) * float(step_ns) / 1000


def with_optimizer(*kernels: str) -> Trace:
    job = Trace()
    for _ in range(2):
        with job.step():
            job.op("aten::mm", kernel=GEMM, gpu_us=500)
            with job.optimizer():
                for kernel in kernels:
                    job.op("aten::_update", kernel=kernel, gpu_us=10, host_us=1)
    return job


@pytest.mark.parametrize(
    ("kernels", "kind"),
    [
        ([FUSED], "fused"),
        ([FOREACH] * 12, "foreach"),
        ([ADD] * 120, "single"),
        ([ADD] * 20, "none seen"),
        ([], "none seen"),
        ([ADD] * 120 + [FUSED], "fused"),
    ],
)
def test_optimizer_kind(kernels: list[str], kind: str) -> None:
    assert facts(with_optimizer(*kernels))["optimizer_kind"].value == kind


def test_an_optimizer_that_loops_costs_its_kernels() -> None:
    assert share(with_optimizer(*[ADD] * 120), "single_tensor_optimizer_share") == pytest.approx(1200, rel=0.05)
    assert share(with_optimizer(*[FOREACH] * 12), "single_tensor_optimizer_share") == 0


EAGER = [
    ("aten::bmm", [[96, 512, 64], [96, 64, 512]], GEMM, 100),
    ("aten::div", [SCORES, []], ADD, 100),
    ("aten::_softmax", [SCORES, [], []], SOFTMAX, 100),
    ("aten::bmm", [[96, 512, 512], [96, 512, 64]], GEMM, 100),
]
FEED_FORWARD = ("aten::mm", [[4096, 768], [768, 3072]], GEMM, 600)


def test_eager_attention_is_softmax_its_products_and_what_touches_the_scores() -> None:
    assert share(steps(*EAGER, FEED_FORWARD), "eager_attention_share") == pytest.approx(400, rel=0.02)


@pytest.mark.parametrize(
    "operator",
    [
        ("aten::_scaled_dot_product_flash_attention", [HIDDEN] * 3, "pytorch_flash::flash_fwd_kernel<1>", 100),
        ("aten::_softmax", [[64, 512, 8], [], []], SOFTMAX, 100),
        ("aten::_log_softmax", [LOGITS, [], []], LOG_SOFTMAX, 100),
        ("aten::mm", [[512, 512], [512, 512]], GEMM, 100),
    ],
)
def test_what_is_not_eager_attention(operator: tuple[str, Any, str, float]) -> None:
    assert share(steps(operator, FEED_FORWARD), "eager_attention_share") == 0


def test_without_shapes_eager_attention_is_a_softmax_between_batched_products() -> None:
    unsized = [(name, None, kernel, us) for name, _, kernel, us in (*EAGER, FEED_FORWARD)]

    assert share(steps(*unsized), "eager_attention_share") == pytest.approx(400, rel=0.02)


def test_a_composed_norm_is_the_operators_around_rsqrt() -> None:
    norm = [(f"aten::{name}", [HIDDEN, []], ADD, 50.0) for name in ("pow", "mean", "add", "rsqrt", "mul", "mul")]
    residual = ("aten::add", [HIDDEN, HIDDEN], ADD, 300.0)

    found = share(steps(residual, *norm, FEED_FORWARD, ("aten::mul", [HIDDEN], ADD, 300.0)), "unfused_norm_share")

    assert found == pytest.approx(250, rel=0.02), "pow, mean, rsqrt and two products; never an add"


def test_the_gradients_of_a_composed_norm_are_told_by_the_nodes_of_autograd() -> None:
    job = steps(*[(f"aten::{name}", [HIDDEN, []], ADD, 50.0) for name in ("pow", "mean", "rsqrt", "mul", "mul")])
    nodes = ("MmBackward0", "MulBackward0", "MulBackward0", "RsqrtBackward0", "MeanBackward1", "PowBackward0", "Add")
    with job.step():
        for node in nodes:
            with job.backward(f"autograd::engine::evaluate_function: {node}"):
                job.op("aten::mul", [HIDDEN, HIDDEN], ADD, 50.0)

    found = facts(job)["unfused_norm_share"].value

    assert found == pytest.approx((250 + 250) / (250 + 350)), "of the gradients neither the product nor the sum"


def test_of_neighbours_that_a_compiler_fuses_the_longest_is_left() -> None:
    chain = [("aten::mul", [HIDDEN], ADD, us) for us in (100.0, 300.0, 100.0)]

    found = facts(steps(*chain, FEED_FORWARD, ("aten::mul", [HIDDEN], ADD, 100.0)))["least_fusible_left_share"].value

    assert found == pytest.approx((300 + 100) / 600)


def test_fused_attention_takes_what_the_flops_of_its_products_do() -> None:
    flops = 2 * 2 * 96 * 512 * 512 * 64
    found = facts(steps(*EAGER, FEED_FORWARD))

    shares = [float(found[f"{which}_fused_attention_left_share"].value) for which in ("least", "most")]  # type: ignore[arg-type]

    at_peak = flops / 989.4e12 / 400e-6
    assert shares == [pytest.approx(0.5 * at_peak / 0.73, rel=0.01), pytest.approx(at_peak / 0.30, rel=0.01)]


def test_without_the_sizes_of_each_product_or_a_peak_nobody_knows_what_fused_attention_leaves() -> None:
    unsized = facts(steps(*[(name, None, kernel, us) for name, _, kernel, us in (*EAGER, FEED_FORWARD)]))
    document = steps(*EAGER, FEED_FORWARD).json()
    document["deviceProperties"][0]["name"] = "a GPU that is in no table"
    peakless = facts(document)

    for which in ("least", "most"):
        name = f"{which}_fused_attention_left_share"
        assert getattr(unsized[name].value, "because", "") == "operator shapes were not recorded"
        assert peakless[name].value == peakless["peak_matrix_flops_per_s"].value != unsized[name].value


def test_an_activation_without_a_product_is_not_gated() -> None:
    assert share(steps(("aten::silu", [HIDDEN], ADD, 50.0), FEED_FORWARD), "unfused_glu_share") == 0


def test_a_loss_over_few_classes_is_not_worth_fusing() -> None:
    assert share(steps(("aten::_log_softmax", [[4096, 10]], ADD, 50.0), FEED_FORWARD), "unfused_loss_share") == 0


def test_a_fused_norm_is_none() -> None:
    assert share(steps(("aten::native_layer_norm", [HIDDEN], NORM, 50), FEED_FORWARD), "unfused_norm_share") == 0


def test_a_composed_gate_is_silu_its_gradient_and_the_product() -> None:
    gate = [("aten::silu", [HIDDEN], SILU, 50.0), ("aten::mul", [HIDDEN, HIDDEN], ADD, 50.0)]
    backward = ("aten::silu_backward", [HIDDEN, HIDDEN], SILU, 50.0)

    job = steps(*gate, FEED_FORWARD, FEED_FORWARD, backward)

    assert share(job, "unfused_glu_share") == pytest.approx(150, rel=0.02)
    assert share(steps(FEED_FORWARD), "unfused_glu_share") == 0


def test_a_composed_loss_is_log_softmax_nll_and_casts_of_the_logits() -> None:
    operators = [
        ("aten::_to_copy", [LOGITS], ADD, 50.0),
        ("aten::_log_softmax", [LOGITS, [], []], LOG_SOFTMAX, 50.0),
        ("aten::nll_loss_forward", [LOGITS, [4096]], ADD, 50.0),
    ]

    assert share(steps(*operators, FEED_FORWARD), "unfused_loss_share") == pytest.approx(150, rel=0.02)


def test_products_in_fp32_without_tensor_cores() -> None:
    job = steps(("aten::mm", None, "ampere_sgemm_128x64_tn", 300), ("aten::mm", None, GEMM, 100))

    assert share(job, "fp32_simt_share") == pytest.approx(300, rel=0.02)
    assert facts(job)["tensor_core_share"].value == pytest.approx(0.25)


def test_pageable_copies_are_a_share_of_the_bytes_copied_to_the_device() -> None:
    job = Trace()
    with job.step():
        job.copy(1_000_000, pinned=True)
        job.copy(3_000_000)
        job.copy(50_000_000, kind="DtoH")
        job.launch(GEMM, 10)

    assert facts(job)["pageable_copy_share"].value == pytest.approx(0.75)


@pytest.mark.parametrize(("workers", "expected"), [(0, "none"), (4, "some")])
def test_loader_workers(workers: int, expected: str) -> None:
    job = Trace()
    with job.step():
        job.loader(us=10, workers=workers)
        job.launch(GEMM, 10)

    assert facts(job)["loader_workers"].value == expected


def test_without_a_loader_its_workers_are_unknown() -> None:
    assert isinstance(facts(steps(FEED_FORWARD))["loader_workers"].value, Unknown)


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        (["DistributedDataParallel.forward"], False),
        (["DistributedDataParallel.forward", "torch::distributed::reducer::search_unused_parameters"], True),
    ],
)
def test_searches_unused_parameters(ranges: list[str], expected: bool) -> None:
    job = Trace(world=2)
    with job.step():
        for name in ranges:
            job.event("user_annotation", name, 20)
        job.launch(GEMM, 10)

    assert facts(job)["searches_unused_parameters"].value is expected
    assert facts(job)["world_size"].value == 2
    assert isinstance(facts(steps(FEED_FORWARD))["searches_unused_parameters"].value, Unknown)


def test_collectives_are_sized_and_told_hidden_from_exposed() -> None:
    job = Trace(world=8)
    for _ in range(2):
        with job.step():
            job.collective("allreduce", 4 << 20, 100)
            job.launch(GEMM, 400)
            job.collective("allreduce", 64 << 10, 100)
            job.sync(stream=None)

    found = facts(job)

    assert found["small_collective_share"].value == 0.5
    assert found["mean_collective_bytes"].value == ((4 << 20) + (64 << 10)) / 2
    assert 0.4 < float(found["overlapped_communication_share"].value) < 0.5  # type: ignore[arg-type]
    assert isinstance(found["transfer_share"].value, Unknown)
    assert float(found["step_time_ns"].value) < MS  # type: ignore[arg-type]


def test_products_that_run_on_two_streams_at_once_take_their_time_once() -> None:
    job = Trace()
    for _ in range(4):
        with job.step():
            for stream in (7, 8):
                job.op("aten::mm", HIDDEN, GEMM, 400, stream=stream)
            job.sync(stream=None)
            job.host(400)

    assert facts(job)["half_product_share"].value == pytest.approx(0.5, abs=0.03)
