"""The file of step times: what is written comes back, cut or not, and it stays small."""

import json
from pathlib import Path

import numpy as np
import pytest

from diagnose.commands.series.judge import judged
from diagnose.errors import UserError
from diagnose.probes.timing.step_log import EXACT_SAMPLES, StepLog
from diagnose.series import read_series
from diagnose.series.timing_log import read_timing_log


def log_of(folder: Path, rank: int = 0, done: int = 0) -> StepLog:
    return StepLog(str(folder / f"rank{rank}.steps"), {"rank": rank, "world_size": 1, "done": done, "host": "node-a"})


def fill(log: StepLog, steps: range, us: int = 1000) -> None:
    for step in steps:
        log.add(step, us * 1000, profiled=False)
        if not step % 5000:
            log.write()


def test_the_times_of_all_steps_come_back_by_rank(tmp_path: Path) -> None:
    for rank in (0, 1):
        log = log_of(tmp_path, rank)
        fill(log, range(1, 201), us=1000 + rank)
        log.write(to_the_end=True)
        log.close()

    series = read_series(tmp_path)

    assert series.kind == "armed"
    assert [(track.rank, track.host, len(track), track.seconds[7]) for track in series.tracks] == [
        (0, "node-a", 200, 0.001),
        (1, "node-a", 200, 0.001001),
    ]
    assert [int(step) for step in series.tracks[0].step[[0, -1]]] == [1, 200]


def test_steps_without_a_time_and_profiled_ones_are_left_out(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    log.add(1, 0, profiled=False)
    fill(log, range(2, 41))
    log.tell("window", first=41, why="step 41")
    for step in range(41, 45):
        log.add(step, 9_000_000, profiled=True)
    fill(log, range(45, 61))
    log.write(to_the_end=True)

    (track,) = read_series(tmp_path).tracks

    assert track.step.tolist() == [*range(2, 41), *range(45, 61)]
    assert set(track.seconds) == {0.001}
    assert read_timing_log(tmp_path / "rank0.steps").told[0]["why"] == "step 41"


@pytest.mark.parametrize("cut", [1, 7, 40])
def test_a_torn_end_costs_the_last_block_and_a_resumed_run_goes_on_behind_it(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "rank0.steps"
    log = log_of(tmp_path)
    for block in range(5):
        fill(log, range(64 * block + 1, 64 * block + 65))
        log.write(to_the_end=True)
    log.close()
    path.write_bytes(path.read_bytes()[:-cut])

    again = log_of(tmp_path, done=200)
    fill(again, range(201, 301), us=2000)
    again.write(to_the_end=True)
    (track,) = read_series(tmp_path).tracks
    series = read_series(path)

    assert track.step.tolist() == list(range(1, 301))
    assert series.restarts == (201,)
    assert track.seconds[250] == 0.002
    assert any("could not be read" in note for note in series.notes) == (cut > 1)


@pytest.mark.long
def test_a_long_run_is_folded_and_its_time_kept(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    steps = 4 * EXACT_SAMPLES
    fill(log, range(1, steps + 1))
    log.write(to_the_end=True)
    size = (tmp_path / "rank0.steps").stat().st_size

    (track,) = read_series(tmp_path).tracks

    assert size < 3_000_000
    assert track.covers == 4
    assert len(track) * track.covers == pytest.approx(steps, rel=0.001)
    assert set(track.seconds) == {0.001}


@pytest.mark.long
def test_a_stall_of_a_folded_run_costs_what_it_costs(tmp_path: Path) -> None:
    chance, log = np.random.default_rng(1), log_of(tmp_path)
    for step in range(1, EXACT_SAMPLES + 60_000):
        log.add(step, int(10_000_000 * chance.normal(1, 0.02)) + 10**12 * (step == 123_456), profiled=False)
        if not step % 5000:
            log.write()
    log.write(to_the_end=True)

    (stall,) = judged(read_series(tmp_path)).stalls

    assert stall.step - 2 <= 123_456 <= stall.last_step
    assert stall.cost_s == pytest.approx(1000, rel=0.01)


def test_where_nothing_can_be_written_memory_stays_bounded_and_the_loss_is_counted(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    for step in range(1, 30_001):
        log.add(step, 1000, profiled=False)

    assert log.lost == 10_000


@pytest.mark.parametrize(
    "line",
    [
        '{"s":1,"us":[1,"2"],"t":1}',
        '{"s":-1,"us":[1],"t":1}',
        '{"s":1,"us":[1e300],"t":1}',
        "[[[",
        '{"s":1,"us":[1]}',
        "7",
    ],
)
def test_what_is_no_block_is_left_out_and_counted(tmp_path: Path, line: str) -> None:
    log = log_of(tmp_path)
    fill(log, range(1, 21))
    log.write(to_the_end=True)
    path = tmp_path / "rank0.steps"
    path.write_text(path.read_text() + line + "\n")

    assert len(read_series(path).tracks[0]) == 20
    assert read_timing_log(path).unread == 1


def test_a_file_that_only_has_the_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rank0.steps").write_text(json.dumps({"us": [1]}) + "\n")

    with pytest.raises(UserError, match="no step log of an armed run"):
        read_series(tmp_path)
