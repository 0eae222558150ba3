"""What an evaluation does besides running the model: it keeps outputs, or computes metrics in the user's Python."""

from pathlib import Path
from typing import Any

import pytest
from kineto import Trace
from lines.lines_jobs import finding, recorded

from diagnose.diagnosis import Diagnosis

KEEPS, METRICS, CADENCE = "outputs-kept-in-evaluation", "metrics-in-python", "evaluation-cadence"
RULES = {KEEPS, METRICS}
MS = 1_000_000
EVERY, STEPS = 10, 60
MODEL = {"frames": [["train.py", 9, "main"]], "doing": "forward", "calls": "train", "below": []}
LOOP = ["transformers/trainer.py", "evaluation_loop"]
JOINED = {**MODEL, "doing": "loop", "below": [LOOP, ["transformers/trainer_pt_utils.py", "nested_concat"]]}
SCORED = {
    **MODEL,
    "frames": [["train.py", 9, "main"], ["train.py", 4, "scores"]],
    "doing": "step",
    "calls": "choice",
}


def record(evaluating: dict[str, Any], samples: int = 8) -> dict[str, Any]:
    """Steps of 10 ms, of which every tenth evaluates for 90 ms; there `samples` show this stack, elsewhere one each."""
    numbers = list(range(11, 11 + STEPS))
    evaluates = [number % EVERY == 0 for number in numbers]
    ns = [(100 if each else 10) * MS for each in evaluates]
    often = [[number, samples] for number, each in zip(numbers, evaluates, strict=True) if each]
    usual = [[number, 1] for number, each in zip(numbers, evaluates, strict=True) if not each]
    stacks = [{**evaluating, "by_step": often}, {**MODEL, "by_step": usual}]
    stacks = [{**stack, "samples": sum(count for _, count in stack["by_step"])} for stack in stacks]
    count = sum(stack["samples"] for stack in stacks)
    return {
        "world_size": 1,
        "training_arguments": {"eval_strategy": "steps", "eval_steps": EVERY},
        "steps": {"clock": "host", "first_active_step": 7, "waiting_ns": [10 * MS] * 6, "active_ns": [10 * MS] * 4},
        "every_step": {
            "number": numbers, "ns": ns, "profiled": [False] * STEPS, "gc_ns": [0] * STEPS,
            "ranges_ns": {"diagnose.eval": [90 * MS if each else 0 for each in evaluates]},
        },
        "stack_samples": {
            "interval_ms": 10.0, "wall_ms": sum(ns) / MS, "cost_ms": 1.0, "samples": count, "in_user_code": count,
            "steps": STEPS, "first_step": 11, "step_ns": ns, "left_out": 0, "stacks": stacks,
        },
    }  # fmt: skip


def diagnosed(folder: Path, known: dict[str, Any]) -> Diagnosis:
    job = Trace(gpu=None)
    job.next_step = 7
    for _ in range(4):
        with job.step():
            job.cpu_op("aten::mm", 6000)
            job.cpu_op("autograd::engine::evaluate_function: MmBackward0", 2000)
            job.cpu_op("Optimizer.step#AdamW.step", 1000)
    return recorded(folder, [job], known)


@pytest.mark.parametrize(("stack", "rule", "other"), [(JOINED, KEEPS, METRICS), (SCORED, METRICS, KEEPS)])
def test_the_work_of_an_evaluation_is_named_and_comes_before_fewer_evaluations(
    tmp_path: Path, stack: dict[str, Any], rule: str, other: str
) -> None:
    answer = diagnosed(tmp_path, record(stack))

    found = finding(answer, rule)
    assert found.severity == "critical"
    assert found.predicted_speedup is not None
    assert found.predicted_speedup[1] == pytest.approx(1.9, rel=0.05)
    assert {each.rule for each in answer.findings}.isdisjoint({other, CADENCE})
    assert any("an evaluation can be made shorter first" in each.because for each in answer.not_advised)
    assert ("train.py:4, which calls choice" in found.says) == (rule == METRICS)


def test_an_evaluation_that_runs_the_model_is_only_too_frequent(tmp_path: Path) -> None:
    answer = diagnosed(tmp_path, record(MODEL))

    rules = {each.rule for each in answer.findings}
    assert CADENCE in rules
    assert rules.isdisjoint(RULES)


def test_few_samples_in_evaluations_are_unknown(tmp_path: Path) -> None:
    answer = diagnosed(tmp_path, record(SCORED, samples=1))

    assert {each.rule for each in answer.not_judged} >= RULES
    assert CADENCE in {each.rule for each in answer.findings}


@pytest.mark.parametrize("rule", sorted(RULES))
def test_a_job_that_never_evaluates_is_quiet(tmp_path: Path, rule: str) -> None:
    known = record(SCORED)
    known["every_step"]["ranges_ns"] = {}

    assert rule not in {each.rule for each in diagnosed(tmp_path, known).findings}
