"""Gradients that no optimizer steps: what the record says of a real process, and what is judged of it."""

import gc
from pathlib import Path
from typing import Any

import pytest
import torch
from kineto import Trace
from remedies.single_gpu_jobs import analysed

from diagnose.diagnosis import Diagnosis
from diagnose.probes.facts.model import unstepped_gradients

RULE = "unstepped-gradients"
NODE = "autograd::engine::evaluate_function: "


def trained(width: int = 4) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    model = torch.nn.Linear(width, width)
    model(torch.ones(1, width)).sum().backward()
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def test_gradients_beside_the_optimizers_are_counted() -> None:
    gc.collect()
    model, optimizer = trained()
    before = unstepped_gradients(optimizer)
    teacher = torch.nn.Linear(3, 5)
    asked_for_none = torch.nn.Linear(3, 5)
    frozen = torch.nn.Linear(3, 3).requires_grad_(False)
    teacher(frozen(torch.ones(1, 3))).sum().backward()

    assert before is not None
    assert unstepped_gradients(optimizer) == before + 20
    assert all(weight.grad is None for weight in (*asked_for_none.parameters(), *frozen.parameters()))
    assert all(weight.grad is not None for weight in model.parameters())


def test_what_another_optimizer_steps_is_not_counted() -> None:
    gc.collect()
    model, optimizer = trained()
    before = unstepped_gradients(optimizer)
    second, other = trained(5)

    assert unstepped_gradients(optimizer) == unstepped_gradients(other) == before
    assert all(weight.grad is not None for weight in (*model.parameters(), *second.parameters()))


def test_copies_that_no_module_holds_say_nothing() -> None:
    model, _ = trained()
    copies = [weight.detach().clone().requires_grad_() for weight in model.parameters()]

    assert unstepped_gradients(torch.optim.SGD(copies, lr=0.1)) is None


def distilled(folder: Path, accumulated: int, **optimizer: Any) -> Diagnosis:
    """Steps of which the backward pass takes 60 %, with so many elements of gradients."""
    trace = Trace(gpu=None)
    for _ in range(5):
        with trace.step():
            trace.cpu_op("aten::mm", 4000)
            with trace.inside(NODE + "MmBackward0"):
                trace.cpu_op("aten::mm", 6000)
            trace.cpu_op("torch::autograd::AccumulateGrad", 1, [[accumulated, 1]])
    return analysed(folder, trace, {"optimizer": {"class": "AdamW", "parameters": 100, **optimizer}})


def test_they_are_named_with_their_share_and_a_gain_within_the_backward_pass(tmp_path: Path) -> None:
    found = distilled(tmp_path, 400, unstepped_gradients=300)

    finding = next(each for each in found.findings if each.rule == RULE)
    assert finding.severity == "critical"
    assert found.fact("unstepped_gradient_share") == pytest.approx(0.75)
    assert found.fact("backward_share") == pytest.approx(0.6, abs=0.01)
    best = 1 / (1 - 0.6 * 0.875)
    assert finding.predicted_speedup == pytest.approx((1 / (1 - 0.3 * 0.6 * 0.75), best), rel=0.02)


@pytest.mark.parametrize("unstepped", [0, 300])
def test_gradients_of_before_are_none_of_the_steps(unstepped: int, tmp_path: Path) -> None:
    found = distilled(tmp_path, 100, unstepped_gradients=unstepped)

    assert found.fact("unstepped_gradient_share") == 0
    assert RULE not in {each.rule for each in found.findings}
