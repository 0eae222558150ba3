"""Where the wall time of a process goes: its ranges before the first step, in the steps, and after the last one."""

import json
from pathlib import Path
from typing import Any

import pytest
from capture.scripts import BARE, run
from capture.test_session import Clock

from diagnose.judge.goodput import goodput_of
from diagnose.probes.protocol import COMPILE_RANGE, DATA_WAIT_RANGE, EVAL_RANGE, OWN_RANGE, SAVE_RANGE
from diagnose.probes.recording.range_times import RangeTimes
from diagnose.probes.recording.run_time import RunTime
from diagnose.trace.record import decoded

pytest.importorskip("torch")

SPANS = ("before", "in_steps", "after")


def test_an_evaluation_has_all_that_lies_within_it() -> None:
    clock = Clock()
    times = RangeTimes(clock)
    times.restart(on=True)
    for name in ("log", EVAL_RANGE, DATA_WAIT_RANGE):
        times.opened(name)
        clock.now += 5
    times.closed(DATA_WAIT_RANGE)
    times.closed(EVAL_RANGE)
    clock.now += 2
    times.closed("log")

    assert times.taken() == {"log": 7, EVAL_RANGE: 10}


def test_the_spans_add_up_to_the_wall_time_and_own_work_is_in_no_other_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diagnose.probes.recording.run_time.age_ns", lambda: 100)
    clock = Clock()
    times = RangeTimes(clock)
    run_time = RunTime(times, clock)
    run_time.watch()
    clock.now += 50
    run_time.may_begin()
    for _ in range(3):
        times.opened(DATA_WAIT_RANGE)
        clock.now += 4
        times.closed(DATA_WAIT_RANGE)
        clock.now += 6
        run_time.step_ended()
        began = times.look()
        clock.now += 1
        times.own(began)
    clock.now += 20

    told: dict[str, Any] = run_time.facts(ended=True) or {}

    assert (told["wall_ns"], told["first_seen"], told["ended"]) == (203, True, True)
    assert [told[name]["ns"] for name in SPANS] == [150, 32, 21]
    assert told["in_steps"]["ranges_ns"] == {DATA_WAIT_RANGE: 12, OWN_RANGE: 2}
    assert told["after"]["ranges_ns"] == {OWN_RANGE: 1}


def test_a_loop_without_a_loader_begins_where_its_first_step_ends() -> None:
    clock = Clock()
    run_time = RunTime(RangeTimes(clock), clock)
    run_time.watch()
    assert run_time.facts() is None
    clock.now += 30
    run_time.step_ended()

    told: dict[str, Any] = run_time.facts() or {}

    assert (told["first_seen"], told["in_steps"]["ns"]) == (False, 0)


LOOP = """
held_out = loader(8)
def evaluate():
    {evaluate}
def epoch():
    for (batch,) in loader(16):
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
for _ in range(4):
    epoch()
    evaluate()
finish()
"""
MODE = """model.eval()
    for (batch,) in held_out:
        with torch.no_grad():
            model(batch)
    model.train()"""
NO_GRAD = """with torch.no_grad():
        for (batch,) in held_out:
            model(batch)"""
BROKEN_OFF = """with torch.no_grad():
        for (batch,) in held_out:
            break"""
ROLLOUT = """with torch.no_grad():
        for _ in range(8):
            model(torch.randn(2, 8))"""
TEACHER = """teacher = nn.Linear(8, 1).eval()
    for (batch,) in held_out:
        teacher(batch)"""
ALWAYS_IN_EVAL = """model.eval()"""


def whole_run(script: str, folder: Path) -> dict[str, Any]:
    done = run(script, folder, {})
    assert done.returncode == 0, done.stderr
    (path,) = (folder / "out").glob("run-rank0.json")
    told: dict[str, Any] = json.loads(path.read_text())
    return told


@pytest.mark.capture
@pytest.mark.parametrize(
    ("evaluate", "evaluates"),
    [(MODE, True), (NO_GRAD, True), (BROKEN_OFF, True), (ROLLOUT, False), (TEACHER, False)],
)
def test_a_pass_over_a_loader_that_does_not_train_is_an_evaluation(
    evaluate: str, evaluates: bool, tmp_path: Path
) -> None:
    told = whole_run(BARE + LOOP.format(evaluate=evaluate), tmp_path)

    in_steps = told["in_steps"]["ranges_ns"]
    assert (EVAL_RANGE in in_steps) is evaluates
    assert told["ended"]
    assert told["wall_ns"] == sum(told[name]["ns"] for name in SPANS)
    assert SAVE_RANGE in told["after"]["ranges_ns"]
    assert OWN_RANGE in in_steps


@pytest.mark.capture
def test_training_in_the_mode_of_an_evaluation_is_taken_for_one_once_at_most(tmp_path: Path) -> None:
    told = whole_run(BARE + LOOP.format(evaluate=ALWAYS_IN_EVAL).replace("range(4)", "range(12)"), tmp_path)

    ranges = told["in_steps"]["ranges_ns"]
    assert ranges.get(EVAL_RANGE, 0) < 0.2 * (ranges[DATA_WAIT_RANGE] + ranges[DATA_WAIT_RANGE + ".first"])


@pytest.mark.slow
@pytest.mark.capture
def test_an_armed_run_tells_of_all_its_process_beside_its_step_times(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()

    done = run(BARE + LOOP.format(evaluate=NO_GRAD), tmp_path, {"armed": {}})

    told = json.loads((tmp_path / "out" / "run-rank0.json").read_text())
    assert done.returncode == 0, done.stderr
    assert told["ended"]
    assert told["wall_ns"] == sum(told[name]["ns"] for name in SPANS)
    assert {EVAL_RANGE, DATA_WAIT_RANGE} <= set(told["in_steps"]["ranges_ns"])


@pytest.mark.slow
@pytest.mark.capture
def test_what_torch_compiles_is_a_range(tmp_path: Path) -> None:
    compiled = "import torch._dynamo\nfrom diagnose.probes.hooks import compile_hooks\ncompile_hooks.install()\n"
    compiled += "model.compile(backend='eager')\n"

    told = whole_run(BARE + compiled + LOOP.format(evaluate=ROLLOUT), tmp_path)

    assert told["in_steps"]["ranges_ns"][COMPILE_RANGE] > 0


@pytest.mark.parametrize("first_seen", [True, False])
def test_the_goodput_so_far_is_that_of_the_report(monkeypatch: pytest.MonkeyPatch, first_seen: bool) -> None:
    monkeypatch.setattr("diagnose.probes.recording.run_time.age_ns", lambda: 100)
    clock = Clock()
    times = RangeTimes(clock)
    run_time = RunTime(times, clock)
    run_time.watch()
    clock.now += 50
    if first_seen:
        run_time.may_begin()
    for _ in range(3):
        for name, ns in ((DATA_WAIT_RANGE, 4), (EVAL_RANGE, 3), (SAVE_RANGE, 2), ("diagnose.forward", 20)):
            times.opened(name)
            clock.now += ns
            times.closed(name)
        run_time.step_ended()
    clock.now += 7
    reported = goodput_of(decoded({"run_time": run_time.facts()}), 25e-9)
    spent = run_time.goodput(25)

    assert spent is not None
    assert reported is not None
    assert spent[0] / spent[1] == pytest.approx(reported.parts[0].share)
    assert spent[1] == pytest.approx(1e9 * reported.wall_s)
