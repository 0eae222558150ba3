"""Steps that become longer as the run goes on: named with the line that grows, and no level, noise or single change."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kineto import Trace
from lines.lines_jobs import finding, recorded

from diagnose.diagnosis import Diagnosis
from diagnose.facts import Unknown
from diagnose.report.views.first_screen import first_screen
from diagnose.series.slowing import Slowing, grown_line, slowing
from diagnose.trace.record import decoded

RULE = "slowing-steps"
MS = 1_000_000
STEPS = 160


def record(last_ms: float, line: int = 17, **changed: Any) -> dict[str, Any]:
    """A run whose sampled steps 11 to 170 grow evenly from 2 ms, by one line; the window is of steps 7 to 10."""
    times = np.linspace(2, last_ms, STEPS) * (1 + 0.02 * np.random.default_rng(3).standard_normal(STEPS))
    growing = np.linspace(0, 1 - 2 / last_ms, STEPS)
    joins = {"frames": [["train.py", line, "main"]], "doing": "step", "calls": "cat", "below": []}
    usual = {"frames": [["train.py", 5, "main"]], "doing": "forward", "calls": "model", "below": []}
    by_step = [[11 + at, round(10 * share)] for at, share in enumerate(growing)]
    others = [[step, 10 - count] for step, count in by_step]
    stacks = [{**joins, "samples": sum(n for _, n in by_step), "by_step": [each for each in by_step if each[1]]}]
    stacks.append({**usual, "samples": sum(n for _, n in others), "by_step": others})
    sampled = {"interval_ms": 1.0, "wall_ms": float(times.sum()), "cost_ms": 1.0, "samples": 10 * STEPS}
    counts = {"steps": STEPS, "first_step": 11, "left_out": 0, "in_user_code": 10 * STEPS, "stacks": stacks}
    known = {"clock": "host", "first_active_step": 7, "waiting_ns": [2 * MS] * 6, "active_ns": [2 * MS] * 4, **changed}
    step_ns = (times * MS).tolist()
    return {"world_size": 1, "steps": known, "stack_samples": {**sampled, **counts, "step_ns": step_ns}}


def diagnosed(folder: Path, last_ms: float) -> Diagnosis:
    """Steps 7 to 10 of 2 ms, in a run whose later steps are longer."""
    job = Trace(gpu=None)
    job.next_step = 7
    for _ in range(4):
        with job.step():
            job.cpu_op("aten::mm", 1800)
    return recorded(folder, [job], record(last_ms))


def test_steps_that_grow_are_measured_from_the_first_to_the_last() -> None:
    known = decoded(record(10))
    found = slowing(known)

    assert isinstance(found, Slowing)
    assert found.factor == pytest.approx(5, rel=0.2)
    assert found.run_share == pytest.approx(1 - 2 / 6, abs=0.05)
    assert grown_line(known, found) == "train.py:17, which calls cat"


def test_steps_of_one_length_do_not_grow() -> None:
    assert slowing(decoded(record(2))) is None


def test_one_change_of_level_is_no_growth() -> None:
    known = record(2)
    step_ns = known["stack_samples"]["step_ns"]
    known["stack_samples"]["step_ns"] = [ns * (1 + (at > STEPS // 2)) for at, ns in enumerate(step_ns)]

    assert slowing(decoded(known)) is None


def test_steps_that_become_shorter_do_not_grow() -> None:
    known = record(10)
    known["stack_samples"]["step_ns"].reverse()

    assert slowing(decoded(known)) is None


def test_few_steps_are_unknown() -> None:
    assert isinstance(slowing(decoded({"world_size": 1, "steps": {"waiting_ns": [2 * MS] * 20}})), Unknown)


def test_no_line_is_named_where_all_lines_grow_alike() -> None:
    known = record(10)
    for stack in known["stack_samples"]["stacks"]:
        stack["by_step"] = [[step, 5] for step in range(11, 11 + STEPS)]
        stack["samples"] = 5 * STEPS
    found = slowing(decoded(known))

    assert isinstance(found, Slowing)
    assert grown_line(decoded(known), found) == ""


def test_the_verdict_waits_and_the_advice_names_the_line(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, 10)

    grows = finding(found, RULE)
    assert grows.severity == "critical"
    assert "train.py:17, which calls cat" in grows.do
    assert "growing-steps" in {doubt.kind for doubt in found.verdict.doubts}
    assert any("train.py:17" in line.text for line in first_screen(found).lines)


def test_steps_of_one_length_have_no_such_finding(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, 2)

    assert RULE not in {each.rule for each in found.findings}
    assert found.fact("slowing_factor") == 1.0
