"""The second window: where it begins, that real jobs write it, and what the report takes from it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from diagnose.analysis import analyze
from diagnose.probes.second_window import STEPS, SecondWindow

USUAL, SLOW = 10_000_000, 200_000_000
PATIENCE_S = 300


def seen(window: SecondWindow, steps: int, period: int = 16, slow: int = SLOW, recorded: range = range(0)) -> None:
    """The window has seen so many steps, of which one in a period is slow."""
    for step in range(1, steps + 1):
        window.step_ended(step, slow if step % period == 0 else USUAL, step in recorded)


def test_the_next_slow_step_of_a_phase_is_in_the_middle_of_the_window() -> None:
    window = SecondWindow(deep=False, judges=True)
    seen(window, 150)

    first = window.first_step(150, warmup=2)

    assert first is not None
    assert first >= 153
    assert (first + STEPS // 2) % 16 == 0


@pytest.mark.parametrize("deep", [False, True])
def test_a_phase_that_the_first_window_counted_needs_no_other_without_stacks(deep: bool) -> None:
    window = SecondWindow(deep=deep, judges=True)
    seen(window, 150, recorded=range(30, 34))

    assert (window.first_step(150, warmup=2) is not None) is deep


def test_the_first_step_of_a_window_is_not_counted() -> None:
    window = SecondWindow(deep=False, judges=True)
    seen(window, 150, recorded=range(32, 36))

    assert window.first_step(150, warmup=2) is not None


def test_slow_steps_that_take_little_of_the_time_open_no_window() -> None:
    window = SecondWindow(deep=False, judges=True)
    seen(window, 600, period=64, slow=2 * USUAL)

    assert window.first_step(600, warmup=2) is None


def test_ranks_that_do_not_judge_open_it_by_count_and_only_with_stacks() -> None:
    for deep, first in ((True, 153), (False, None)):
        window = SecondWindow(deep=deep, judges=False)
        seen(window, 150)
        assert window.first_step(150, warmup=2) == first


LOOP = """
import os, time, torch
torch.set_num_threads(1)
model = torch.nn.Linear(8, 8)
if "RANK" in os.environ:
    torch.distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters())
def collect():
    time.sleep(0.4)
def train(steps, every=10**9):
    for step in range(1, steps + 1):
        if step % every == 0:
            collect()
        time.sleep(0.01)
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def ran(tmp_path: Path, body: str, *options: str, launcher: tuple[str, ...] = ()) -> str:
    """What a run of the loop says on stderr; its bundle is `out`."""
    (tmp_path / "train.py").write_text(LOOP + body)
    command = [sys.executable, "-m", "diagnose", "run", "--out", "out", *options, "--", *(launcher or ("train.py",))]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "DIAGNOSE_LEDGER": "off"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def record(folder: Path, rank: int = 0) -> dict[str, Any]:
    return dict(json.loads((folder / f"capture-rank{rank}.json").read_text()))


@pytest.mark.capture
@pytest.mark.long
def test_a_window_is_placed_on_a_phase_and_the_report_says_what_it_does(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    said = ran(tmp_path, "train(400, every=20)\n", "--at-step", "28")

    (folder,) = (tmp_path / "out").glob("step-*")
    first = record(folder)["steps"]["first_active_step"]
    assert (first + 1) % 20 == 0
    assert record(folder)["profiler"]["with_stack"] is False
    kept = json.loads((tmp_path / "out" / "diagnosis.json").read_text())
    assert kept["period"]["every_steps"] == 20
    assert kept["period"]["recorded_step"] == first + 1
    assert kept["period"]["window"] == folder.name
    assert sum(kept["period"]["cause_shares"].values()) == pytest.approx(1)
    assert sum(entry["ns"] for entry in kept["ledger"]) == kept["steps"]["time_ns"]
    assert f"a second window has step {first + 1}, of those that come again" in said
    assert "a second window" in (tmp_path / "out" / "report.txt").read_text()


@pytest.mark.capture
@pytest.mark.long
def test_stacks_are_recorded_in_a_second_window_and_times_stay_those_of_the_first(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    said = ran(tmp_path, "train(150)\n", "--deep", "--sample-steps", "5")

    (folder,) = (tmp_path / "out").glob("step-*")
    assert record(folder)["profiler"]["with_stack"] is True
    assert record(tmp_path / "out")["profiler"]["with_stack"] is False
    answer = analyze(tmp_path / "out")
    held = {window.holds: window for window in answer.windows}
    assert answer.steps.count == record(tmp_path / "out")["profiler"]["active"] - 1
    assert held["stacks"].numbers == tuple(range(held["stacks"].numbers[0], held["stacks"].numbers[-1] + 1))
    assert answer.user_code is not None
    assert answer.user_code.of.endswith("recorded with stacks")  # five steps have too few samples
    assert any(each.file.endswith("train.py") for each in answer.user_code.functions)
    assert "with stacks" in said


@pytest.mark.capture
@pytest.mark.long
def test_two_ranks_record_stacks_in_the_same_steps(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    launcher = ("torchrun", "--standalone", "--nproc_per_node=2", "train.py")
    ran(tmp_path, "train(150)\n", "--deep", launcher=launcher)

    (folder,) = (tmp_path / "out").glob("step-*")
    assert {path.name for path in folder.glob("rank*.json.gz")} == {"rank0.json.gz", "rank1.json.gz"}
    assert len({record(folder, rank)["steps"]["first_active_step"] for rank in (0, 1)}) == 1


@pytest.mark.capture
@pytest.mark.long
def test_a_loop_without_room_for_a_second_window_says_so_and_keeps_the_first(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    said = ran(tmp_path, "train(40)\n", "--deep")

    assert "no second window" in said
    assert (tmp_path / "out" / "rank0.json.gz").is_file()
    assert not [*(tmp_path / "out").glob("step-*/*.gz")]


@pytest.mark.capture
@pytest.mark.long
def test_stop_ends_the_job_after_the_second_window(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    ran(tmp_path, "train(100_000)\n", "--deep", "--stop", "--sample-steps", "5")

    assert len([*(tmp_path / "out").glob("step-*/rank0.json.gz")]) == 1
