"""Loops in Python over small operators: named where they repeat without a layer's own weights, on a CPU and a GPU."""

from pathlib import Path
from typing import Any

import pytest
from kineto import Trace
from remedies.single_gpu_jobs import analysed

from diagnose.diagnosis import Diagnosis

RULE = "looped-operators"
NODE = "autograd::engine::evaluate_function: "
ALL_TRAIN = {"model": {"parameters": 100, "trainable": 100}}


def over_elements(rounds: int = 64, us: float = 10) -> Trace:
    """Steps of a loop over elements and, three times as long, a product and its gradient."""
    trace = Trace(gpu=None)
    for _ in range(5):
        with trace.step():
            for _ in range(rounds):
                trace.cpu_op("aten::select", us / 2)
                trace.cpu_op("aten::fill_", us / 2)
            trace.cpu_op("aten::mm", 3 * rounds * us / 2)
            with trace.inside(NODE + "MmBackward0"):
                trace.cpu_op("aten::mm", 3 * rounds * us / 2)
    return trace


def over_layers(own_weights: bool) -> Trace:
    """Steps of products, one after the other, whose gradients are accumulated in each round or behind all of them."""
    trace = Trace(gpu=None)
    for _ in range(5):
        with trace.step():
            for _ in range(40):
                trace.cpu_op("aten::linear", 20)
                trace.cpu_op("aten::relu", 10)
            for _ in range(40):
                trace.cpu_op(NODE + "ReluBackward0", 10)
                trace.cpu_op(NODE + "AddmmBackward0", 20)
                if own_weights:
                    trace.cpu_op(NODE + "torch::autograd::AccumulateGrad", 5)
            trace.cpu_op(NODE + "torch::autograd::AccumulateGrad", 5)
    return trace


def rules(found: Diagnosis) -> set[str]:
    return {finding.rule for finding in found.findings}


def test_a_loop_over_elements_is_named_with_its_operators_and_promises_no_more_than_it_takes(tmp_path: Path) -> None:
    found = analysed(tmp_path, over_elements())

    finding = next(each for each in found.findings if each.rule == RULE)
    assert "aten::select, aten::fill_ 64 times in a row" in finding.says
    assert found.fact("operator_loop_share") == pytest.approx(0.25, abs=0.02)
    assert finding.severity == "warning"
    assert finding.predicted_speedup is not None
    low, high = finding.predicted_speedup
    assert 1.05 < low < high <= 4 / 3 + 0.03


def test_a_few_rounds_and_rounds_of_much_work_are_no_loop_to_replace(tmp_path: Path) -> None:
    assert RULE not in rules(analysed(tmp_path / "few", over_elements(rounds=15)))
    assert RULE not in rules(analysed(tmp_path / "large", over_elements(us=400)))


def test_layers_with_weights_of_their_own_are_no_loop(tmp_path: Path) -> None:
    assert RULE in rules(analysed(tmp_path / "cell", over_layers(own_weights=False), ALL_TRAIN))
    assert RULE not in rules(analysed(tmp_path / "layers", over_layers(own_weights=True), ALL_TRAIN))


@pytest.mark.parametrize("record", [None, {"model": {"parameters": 100, "trainable": 10}}])
def test_layers_whose_weights_may_be_frozen_are_no_loop(record: Any, tmp_path: Path) -> None:
    assert RULE not in rules(analysed(tmp_path, over_layers(own_weights=False), record))


def test_checkpointed_layers_are_no_loop(tmp_path: Path) -> None:
    trace = Trace(gpu=None)
    for _ in range(5):
        with trace.step():
            for _ in range(40):
                with trace.inside("CheckpointFunction"):
                    trace.cpu_op("aten::linear", 20)
            for _ in range(40):
                with trace.inside(NODE + "CheckpointFunctionBackward"):
                    trace.cpu_op("aten::linear", 20)
                    with trace.inside(NODE + "AddmmBackward0"):
                        trace.cpu_op("aten::mm", 20)
                    trace.cpu_op(NODE + "torch::autograd::AccumulateGrad", 5)

    assert RULE not in rules(analysed(tmp_path, trace, ALL_TRAIN))


def test_layers_without_a_backward_pass_are_no_loop(tmp_path: Path) -> None:
    trace = Trace(gpu=None)
    for _ in range(5):
        with trace.step():
            for _ in range(40):
                trace.cpu_op("aten::linear", 20)
                trace.cpu_op("aten::relu", 10)

    assert RULE not in rules(analysed(tmp_path, trace))


def test_an_optimizer_that_updates_tensor_by_tensor_is_another_rules(tmp_path: Path) -> None:
    trace = Trace(gpu=None)
    for _ in range(5):
        with trace.step():
            trace.cpu_op("aten::mm", 1000)
            with trace.annotation("Optimizer.step#AdamW.step"):
                for _ in range(64):
                    trace.cpu_op("aten::mul_", 5)
                    trace.cpu_op("aten::add_", 5)

    assert RULE not in rules(analysed(tmp_path, trace))


def test_on_a_gpu_the_idle_time_around_the_loops_launches_goes(tmp_path: Path) -> None:
    trace = Trace()
    for _ in range(5):
        with trace.step():
            trace.launch("gemm", 1000)
            trace.host(1000)
            for _ in range(64):
                with trace.inside("aten::fill_"):
                    trace.host(20)
                    trace.launch("void at::native::vectorized_elementwise_kernel<4, FillFunctor>(int)", 2)

    found = analysed(tmp_path, trace)

    finding = next(each for each in found.findings if each.rule == RULE)
    assert finding.predicted_speedup is not None
    assert finding.predicted_speedup[0] > 1.1


def test_python_between_the_operators_that_takes_longer_than_a_call_is_not_the_loops(tmp_path: Path) -> None:
    trace = Trace(gpu=None)
    for _ in range(5):
        with trace.step():
            for _ in range(64):
                trace.cpu_op("aten::mul_", 5)
                trace.host(400)

    assert RULE not in rules(analysed(tmp_path, trace))
