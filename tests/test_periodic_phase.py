"""A phase that comes every so many steps: its share of the run, its lines, and what gains of the other steps are."""

import json
from pathlib import Path
from typing import Any

import pytest
from kineto import Trace
from lines.lines_jobs import recorded

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis
from diagnose.facts import Unknown
from diagnose.predict.usual_steps import part_of_run
from diagnose.report.views.first_screen import first_screen
from diagnose.report.views.why import period_sentence
from diagnose.series.phase import BEHIND_THE_HOST, NONE, SlowPhase, slow_phase
from diagnose.trace.record import decoded

RULE = "periodic-phase"
MS = 1_000_000
EVERY = 8


def record(slow_ms: float, calls: str | None = None, doing: str = "step", **steps: Any) -> dict[str, Any]:
    """A run of steps of 2 ms, of which 8, 16, 24, ... take longer; the window is of steps 7 to 10."""
    times = [(slow_ms if number % EVERY == 0 else 2.0) * MS for number in range(11, 251)]
    slow = {"frames": [["train.py", 9, "rollout"]], "doing": doing, "calls": calls, "below": []}
    usual = {"frames": [["train.py", 5, "main"]], "doing": "step", "calls": None, "below": []}
    stacks = [
        {**slow, "samples": 60, "by_step": [[number, 2] for number in range(16, 250, EVERY)]},
        {**usual, "samples": 40, "by_step": [[number, 1] for number in range(17, 249) if number % EVERY][:40]},
    ]
    sampled = {"interval_ms": 10.0, "wall_ms": sum(times) / MS, "cost_ms": 1.0, "samples": 100, "in_user_code": 100}
    counts = {"steps": len(times), "first_step": 11, "left_out": 0, "step_ns": times, "stacks": stacks}
    known = {"clock": "host", "first_active_step": 7, "waiting_ns": [2 * MS] * 6, "active_ns": [2 * MS] * 4, **steps}
    return {"world_size": 1, "steps": known, "stack_samples": {**sampled, **counts}}


def test_the_share_is_of_a_whole_period() -> None:
    phase = slow_phase(decoded(record(30)))

    assert isinstance(phase, SlowPhase)
    assert (phase.every, phase.slow_ns, phase.usual_ns) == (8, 30 * MS, 2 * MS)
    assert phase.run_share == pytest.approx(28 / (28 + 8 * 2))
    assert [step for step in range(1, 20) if phase.holds(step)] == [8, 16]


def test_steps_that_take_as_long_as_the_others_are_no_phase() -> None:
    assert slow_phase(decoded(record(2))) is NONE


def test_too_few_steps_are_unknown() -> None:
    told = slow_phase(decoded({"world_size": 1, "steps": {"waiting_ns": [2 * MS] * 6}}))

    assert isinstance(told, Unknown)
    assert told is not NONE


@pytest.mark.parametrize(("calls", "is_phase"), [("item", False), ("step", True)])
def test_a_host_that_waits_for_its_device_now_and_then_has_no_phase(calls: str, is_phase: bool) -> None:
    told = slow_phase(decoded(record(30, calls, clock="device")))

    assert isinstance(told, SlowPhase) if is_phase else told is BEHIND_THE_HOST


def diagnosed(folder: Path, slow_ms: float, **more: Any) -> Diagnosis:
    """Steps 7 to 10, of which 8 is the slow one; the others are operators and a tenth Python."""
    job = Trace(gpu=None)
    job.next_step = 7
    for number in range(7, 11):
        with job.step():
            job.cpu_op("aten::mm", 1800)
            job.host(200 + (1000 * (slow_ms - 2) if number == EVERY else 0))
    return recorded(folder, [job], record(slow_ms, **more))


def test_the_phase_leads_and_names_its_line_and_the_counted_steps_are_the_others(tmp_path: Path) -> None:
    told = diagnosed(tmp_path, 30)

    first = told.findings[0]
    assert (first.rule, first.severity) == ("periodic-phase", "critical")
    assert [(line.function, line.line) for line in first.where] == [("rollout", 9)]
    assert first.where[0].of == "60 samples of the training thread in these slow steps"
    cases = (1 / (1 - 0.4 * 28 / 44), 1 / (1 - 28 / 44))
    assert first.predicted_speedup == pytest.approx(cases, rel=0.01)
    assert told.steps.numbers == (9, 10)


def grown(name: str, slow_ms: float = 30) -> dict[str, Any]:
    """The same steps with a range in which the slow ones are longer."""
    known = record(slow_ms)
    number, ns = list(range(11, 251)), known["stack_samples"]["step_ns"]
    more = [max(each - 2 * MS, 0) for each in ns]
    return known | {
        "every_step": {
            "number": number,
            "ns": ns,
            "profiled": [False] * len(number),
            "gc_ns": [0] * len(number),
            "ranges_ns": {name: more},
        }
    }


def test_shares_and_speed_are_of_the_whole_period(tmp_path: Path) -> None:
    told = diagnosed(tmp_path, 30)

    assert told.period is not None
    assert (told.period.every_steps, told.period.more_ns, told.period.cause) == (8, 28 * MS, "recurring-phase")
    assert told.period.mean_ns == pytest.approx((7 * 2 + 30) / 8 * MS, rel=0.01)
    assert told.steps.time_ns == sum(entry.ns for entry in told.ledger) == told.steps.count * told.period.mean_ns
    shares = {entry.cause: entry.share for entry in told.ledger}
    assert told.period.cause_shares == {"python": 1.0}  # by step 8, whose samples show the user's code
    assert (told.period.recorded_step, told.period.window) == (8, "")
    assert shares["python"] == pytest.approx(28 / 44 + 0.1 * 16 / 44, rel=0.01)
    assert sum(shares.values()) == pytest.approx(1)
    lines = {line.label: line.text for line in first_screen(told).lines}
    assert lines["why"].startswith(
        "Every 8 steps one takes 28.0 ms more, 64 % of the time: of that 100 % Python, by step 8."
    )
    assert lines["speed"].startswith("5.5 ms per step, the mean of 8 steps")


def two_ranks(folder: Path, *doings: str) -> Diagnosis:
    """Steps 17 to 19 of ranks whose samples show this in the slow steps, which are none of them."""
    jobs, known = [], []
    for rank, doing in enumerate(doings):
        job = Trace(gpu=None, rank=rank)
        job.next_step = 17
        for _ in range(3):
            with job.step():
                job.cpu_op("aten::mm", 1800)
                job.host(200)
        jobs.append(job)
        of_rank = record(30, doing=doing, first_active_step=17, active_ns=[2 * MS] * 3)
        known.append({**of_rank, "world_size": len(doings), "rank": rank})
    return recorded(folder, jobs, *known)


@pytest.mark.parametrize(
    ("doings", "alone"),
    [(("step", "backward"), 0), (("backward", "step"), 1), (("step", "step"), None), (("backward", "backward"), None)],
)
def test_ranks_that_wait_in_the_slow_steps_are_told_from_the_one_that_works(
    doings: tuple[str, ...], alone: int | None, tmp_path: Path
) -> None:
    told = two_ranks(tmp_path, *doings)

    assert told.period is not None
    assert (told.period.every_steps, told.period.rank) == (8, alone)
    assert told.steps.time_ns == sum(entry.ns for entry in told.ledger)
    if alone is not None:
        assert told.fact("slow_phase_doing") == "step"
        assert f"on rank {alone} alone, for which the others wait" in period_sentence(told.period)


def test_ranks_that_do_not_agree_have_no_period(tmp_path: Path) -> None:
    told = two_ranks(tmp_path, "step", "backward")
    other = json.loads((tmp_path / "capture-rank1.json").read_text())
    other["stack_samples"]["step_ns"] = [2 * MS] * 240
    (tmp_path / "capture-rank1.json").write_text(json.dumps(other))

    assert told.period is not None
    assert analyze(tmp_path).period is None


def test_a_job_without_a_phase_has_no_period(tmp_path: Path) -> None:
    assert diagnosed(tmp_path, 2).period is None


@pytest.mark.parametrize(
    ("grew", "does"),
    [
        ("diagnose.eval", "evaluating"),
        ("diagnose.save", "saving"),
        ("diagnose.log", "logging"),
        ("diagnose.data_wait.first", "starting a pass"),
        ("diagnose.data_wait", "loading"),
        ("diagnose.optimizer", "step"),
    ],
)
def test_the_ranges_of_the_slow_steps_say_what_they_do(grew: str, does: str, tmp_path: Path) -> None:
    job = Trace(gpu=None)
    job.next_step = 7
    for _ in range(4):
        with job.step():
            job.cpu_op("aten::mm", 1800)
    told = recorded(tmp_path, [job], grown(grew))

    assert told.fact("slow_phase_doing") == does
    rules = {each.rule: each.do for each in told.findings}
    owners = {"evaluating": "evaluation-cadence", "saving": "checkpoint-cadence", "starting a pass": None}
    owner = {**owners, "loading": "late-batches"}.get(does, RULE)
    assert {RULE, "evaluation-cadence", "checkpoint-cadence", "late-batches"} & rules.keys() == {owner} - {None}
    assert ("rollout" not in rules.get(RULE, "")) or does == "step"


def test_a_step_beside_the_slow_one_is_no_slow_step_of_its_own() -> None:
    known = record(30)
    known["stack_samples"]["step_ns"][6] = 3.5 * MS  # step 17, behind the slow step 16

    phase = slow_phase(decoded(known))

    assert isinstance(phase, SlowPhase)
    assert 17 not in phase.steps
    assert phase.run_share == pytest.approx(28 / 44, rel=0.02)


def test_a_phase_that_loads_is_left_to_the_advice_on_loading(tmp_path: Path) -> None:
    told = diagnosed(tmp_path, 30, doing="loading")

    assert "periodic-phase" not in {each.rule for each in told.findings}
    assert any("waits for its batch there, 63.6 % of the run" in each.because for each in told.not_advised)


def test_gains_of_the_other_steps_are_of_the_run(tmp_path: Path) -> None:
    told = diagnosed(tmp_path, 30)

    assert part_of_run({fact.name: fact for fact in told.facts}) == pytest.approx(16 / 44)
    gains = [found.predicted_speedup for found in told.findings if found.rule != "periodic-phase"]
    assert all(gain[1] is None or gain[1] <= 44 / 28 for gain in gains if gain)
