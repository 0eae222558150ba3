"""Predicted throughput against runs that others published, and against pairs of runs that differ in one thing."""

from dataclasses import replace

import numpy as np
import pytest

from diagnose.commands.fit.boards import gpu_named
from diagnose.commands.fit.models import model_from
from diagnose.commands.fit.stacks import stack_of
from diagnose.commands.fit.step_time import PredictedStep, predict_step
from diagnose.commands.fit.table import plan_of, read_table
from diagnose.predict.memory.job import JobPlan, Sharding
from tests.public_tables import public_table

PLAYBOOK = "ultrascale_playbook_h100.csv"


def predicted(rows) -> list[PredictedStep]:
    stack = stack_of("nanotron")
    return [predict_step(plan_of(row, "nanotron", lambda name: model_from(name)[1]), stack) for row in rows]


def test_throughput_of_the_playbook_s_runs():
    rows = read_table(public_table(PLAYBOOK))
    measured = np.array([float(row["tokens_per_s_per_gpu"]) for row in rows])
    errors = np.abs(np.array([step.tokens_per_s_per_gpu for step in predicted(rows)]) / measured - 1)
    well = errors[[float(row["mfu_percent"]) >= 15 for row in rows]]
    assert np.median(well) <= 0.08
    assert np.percentile(well, 90) <= 0.22
    assert np.median(errors) <= 0.25


def test_the_playbook_s_mfu_is_told_by_its_own_convention():
    rows = [row for row in read_table(public_table(PLAYBOOK)) if float(row["mfu_percent"]) >= 15]
    ratios = [
        step.mfu * 100 / float(row["mfu_percent"]) * float(row["tokens_per_s_per_gpu"]) / step.tokens_per_s_per_gpu
        for row, step in zip(rows, predicted(rows), strict=True)
    ]
    assert np.median(np.abs(np.array(ratios) - 1)) < 0.01


def test_the_configuration_chosen_for_a_model_and_gpus_is_near_the_best():
    groups: dict[tuple[str, str], list] = {}
    rows = read_table(public_table(PLAYBOOK))
    for row, step in zip(rows, predicted(rows), strict=True):
        groups.setdefault((row["model"], row["gpus"]), []).append((step, float(row["tokens_per_s_per_gpu"])))
    lost = [
        1 - max(group, key=lambda entry: entry[0].expected_tokens_per_s)[1] / max(rate for _, rate in group)
        for group in groups.values()
    ]
    assert np.median(lost) <= 0.03


def titan(gpus: int, **more) -> PredictedStep:
    """torchtitan's Llama 3.1 8B: FSDP, two sequences of 8192 tokens, selective checkpointing, H100 with HBM2e."""
    name, shape = model_from("Llama-3.1-8B")
    plan = JobPlan(
        name, shape, gpu_named("H100-96GB-HBM2e"), gpus, gpus // 8, 8192, 2, checkpointing="selective",
        sharding=Sharding(dp=gpus, zero=3), **more,
    )  # fmt: skip
    return predict_step(plan, stack_of("torchtitan"))


@pytest.mark.parametrize(("gpus", "eager", "compiled", "fp8"), [(8, 5762, 6667, 8532), (128, 5605, 6514, 8380)])
def test_what_compiling_and_fp8_buy_is_what_torchtitan_measured(gpus, eager, compiled, fp8):
    """Tokens/s of a GPU: torchtitan, benchmarks/llama3_h100_202412_torchtitan.md, tables 1 and 3."""
    steps = [titan(gpus), titan(gpus, compiled=True), titan(gpus, compiled=True, fp8=True)]
    for step, measured in zip(steps, (eager, compiled, fp8), strict=True):
        assert step.tokens / step.slowest_s / gpus <= measured <= step.tokens / step.fastest_s / gpus
    gains = [steps[0].step_s / steps[1].step_s, steps[1].step_s / steps[2].step_s]
    assert gains == pytest.approx([compiled / eager, fp8 / compiled], abs=0.05)


def test_fp8_needs_a_gpu_that_has_it():
    plan = JobPlan("a", model_from("8b")[1], gpu_named("A100-SXM4-80GB"), fp8=True)
    with pytest.raises(Exception, match="this GPU has no fp8 units: A100-SXM4-80GB"):
        predict_step(plan, stack_of("torchtitan"))
    assert predict_step(replace(plan, fp8=False), stack_of("torchtitan")).step_s > 0
