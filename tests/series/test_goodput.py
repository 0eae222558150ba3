"""Where the wall time of a run goes: parts with known answers, which add up to it."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from text_logs import BEGIN

from diagnose.commands.series.answer import SeriesReport
from diagnose.commands.series.judge import judged
from diagnose.series import read_series


class Log:
    """A log of Megatron-LM's form: lines at a clock that goes on."""

    def __init__(self) -> None:
        self.clock: datetime = BEGIN
        self.lines: list[str] = []

    def steps(self, first: int, last: int, seconds: float = 1.0) -> "Log":
        """Steps of the same time each."""
        for step in range(first, last + 1):
            self.step(step, seconds)
        return self

    def step(self, step: int, seconds: float) -> None:
        """A step that takes `seconds`, and its line."""
        self.clock += timedelta(seconds=seconds)
        self.lines.append(
            f" [{self.clock:%Y-%m-%d %H:%M:%S}.{self.clock.microsecond:06}] iteration {step:8}/    1000 |"
            f" consumed samples: 8 | elapsed time per iteration (ms): {1000 * seconds:.1f} | lm loss: 1.0E+01 |"
        )

    def then(self, text: str, seconds: float) -> "Log":
        """A line, and what it speaks of takes `seconds`."""
        self.lines.append(f"[{self.clock:%Y-%m-%d %H:%M:%S}] {text}")
        self.clock += timedelta(seconds=seconds)
        return self


def parts(folder: Path, lines: Sequence[str]) -> tuple[dict[str, float], SeriesReport]:
    (folder / "train.log").write_text("\n".join(lines) + "\n")
    report = judged(read_series(folder / "train.log"))
    assert report.goodput is not None
    found = {part.what: part.time_s for part in report.goodput.parts}
    assert sum(found.values()) == pytest.approx(report.goodput.wall_s)
    assert sum(part.share for part in report.goodput.parts) == pytest.approx(1)
    return found, report


def test_checkpoints_evaluations_stalls_and_idle_time(tmp_path: Path) -> None:
    """300 steps of 1 s; beside them 40 s of saving, 30 s of evaluation, a step of 61 s, and 25 s of nothing known."""
    log = Log().steps(1, 100).then("saving checkpoint at iteration 100 to /ckpt", 40)
    log.steps(101, 150).then("evaluating on the validation set", 30).steps(151, 200).step(201, 61)
    log.steps(202, 250).then("the network is fine", 25).steps(251, 300)

    found, report = parts(tmp_path, log.lines)

    assert found == pytest.approx(
        {"productive": 299, "stalls": 60, "checkpoints": 40, "evaluations": 30, "restarts": 0, "idle": 25}, abs=0.5
    )
    assert [one.step for one in report.stalls] == [201]


def test_a_restart_costs_what_passes_and_what_is_trained_again(tmp_path: Path) -> None:
    """150 steps of 1 s, ten minutes down, then from 101 on again: 50 steps are lost with the 600 s."""
    log = Log().steps(1, 150).then("rank 3: an error", 600).steps(101, 200)

    found, report = parts(tmp_path, log.lines)

    assert found["restarts"] == pytest.approx(650, abs=1.5)
    assert found["productive"] == pytest.approx(199, abs=1.5)
    assert report.stalls == ()


def test_a_stalled_step_with_a_checkpoint_before_it_is_the_checkpoints(tmp_path: Path) -> None:
    log = Log().steps(1, 100).then("saving checkpoint at iteration 100", 0)
    log.step(101, 41)
    log.steps(102, 300)

    found, report = parts(tmp_path, log.lines)

    assert (round(found["checkpoints"]), round(found["stalls"])) == (40, 0)
    assert [near.kind for near in report.stalls[0].near] == ["checkpoint"]


def test_a_clock_alone_tells_stalls_too(tmp_path: Path) -> None:
    clocks = [float(step) + 50 * (step >= 200) for step in range(1, 401)]
    (tmp_path / "steps.csv").write_text("step,timestamp\n" + "".join(f"{i + 1},{c}\n" for i, c in enumerate(clocks)))

    report = judged(read_series(tmp_path / "steps.csv"))

    assert report.goodput is not None
    found = {part.what: part.time_s for part in report.goodput.parts}
    assert (found["stalls"], found["productive"]) == (pytest.approx(50), pytest.approx(399))


def test_evaluations_of_a_trainer_state_are_told(tmp_path: Path) -> None:
    """Entries every 10 steps of 0.3 s; after the 15th an evaluation of 5 s."""
    entries = []
    for i in range(1, 31):
        entries.append(f'{{"step": {10 * i}, "loss": 2.0, "train_runtime": {3.0 * i + 5.0 * (i > 15)}}}')
        if i == 15:
            entries.append('{"step": 150, "eval_loss": 2.0, "eval_runtime": 5.0}')
    (tmp_path / "trainer_state.json").write_text('{"log_history": [' + ",".join(entries) + "]}")

    report = judged(read_series(tmp_path))

    assert report.goodput is not None
    found = {part.what: part.time_s for part in report.goodput.parts}
    assert (found["evaluations"], found["productive"]) == (pytest.approx(5), pytest.approx(87))


def test_without_a_clock_it_is_unknown_and_says_what_to_log(tmp_path: Path) -> None:
    (tmp_path / "steps.csv").write_text("step,step_time_s\n" + "".join(f"{i},0.5\n" for i in range(1, 101)))

    report = judged(read_series(tmp_path))

    assert report.goodput is None
    assert report.goodput_not_told is not None
    assert "no clock" in report.goodput_not_told.because
    assert "timestamp" in report.goodput_not_told.capture_next
