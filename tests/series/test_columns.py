"""The columns of a log: named by the user, of W&B, and what is a clock."""

import json
from pathlib import Path

import numpy as np
import pytest

from diagnose.errors import UserError
from diagnose.series import read_series


def written(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


NAMED = [
    ("n,lap_ms", ["1,250", "2,250", "3,250"], "milliseconds"),
    ("n,at", ["1,10", "2,10.25", "3,10.5", "4,10.75"], "differences of a clock in seconds"),
    ("n,train/steps_per_second", ["1,4", "2,4", "3,4"], "inverse of a rate"),
    ("n,run - _timestamp", [f"{i},{1_700_000_000 + i / 4}" for i in range(4)], "differences of a clock in seconds"),
    ("n, data_time ", ["1,0.25", "2,0.25", "3,0.25"], "read as seconds"),
]


@pytest.mark.parametrize(("header", "cells", "says"), NAMED)
def test_columns_that_the_user_names(tmp_path: Path, header: str, cells: list[str], says: str) -> None:
    log = written(tmp_path / "log.csv", f"{header},step,step_time_s", *(f"{line},7,9" for line in cells))

    series = read_series(log, step_column="n", time_column=header.split(",")[1])

    assert series.tracks[0].seconds == pytest.approx([0.25] * 3)
    assert series.tracks[0].step[-1] == int(cells[-1].split(",")[0])
    assert says in series.unit


def test_times_that_rise_once_are_no_clock(tmp_path: Path) -> None:
    log = written(tmp_path / "log.csv", "step,time", *(f"{s},{0.3 if s < 20 else 0.4}" for s in range(40)))

    assert np.median(read_series(log).tracks[0].seconds[:20]) == pytest.approx(0.3)


def test_one_named_column_leaves_the_other_to_its_name(tmp_path: Path) -> None:
    log = written(tmp_path / "log.jsonl", *(json.dumps({"step": s, "step_time_s": 9, "lap": 250}) for s in range(5)))

    assert read_series(log, "ms", time_column="lap").tracks[0].seconds == pytest.approx([0.25] * 5)


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ({"step_column": "steps"}, "no column steps in the log"),
        ({"time_column": "tokens_per_sec"}, "tokens_per_sec is a rate of something else than steps"),
        ({"time_column": "tok/s"}, "tok/s is a rate of something else than steps"),
    ],
)
def test_named_columns_that_tell_nothing_are_refused(tmp_path: Path, named: dict[str, str], says: str) -> None:
    log = written(tmp_path / "log.csv", "step,step_time_s,tokens_per_sec,tok/s", "1,0.25,4000,4000")

    with pytest.raises(UserError, match=says) as error:
        read_series(log, **named)

    assert "columns: step, step_time_s, tokens_per_sec" in error.value.why


def test_names_of_columns_are_for_logs_alone(tmp_path: Path) -> None:
    (tmp_path / "trainer_state.json").write_text('{"log_history": []}')

    for path in (tmp_path / "trainer_state.json", tmp_path):
        with pytest.raises(UserError, match=r"no columns to name|no log in the folder has the named columns"):
            read_series(path, time_column="lap")


def test_the_log_in_a_folder_that_has_the_named_column(tmp_path: Path) -> None:
    written(tmp_path / "loss.csv", "step,step_time_s", "1,9", "2,9")
    written(tmp_path / "laps.csv", "step,lap", "1,0.25", "2,0.25")

    assert read_series(tmp_path, time_column="lap").tracks[0].seconds == pytest.approx([0.25] * 2)


def wandb_row(call: int, **more: float | str) -> str:
    """A row as W&B exports it, 2.5 s after the one before."""
    return json.dumps({"_step": call, "_runtime": 5 + 2.5 * call, "_timestamp": 1_700_000_005 + 2.5 * call} | more)


@pytest.mark.parametrize("name", ["train/global_step", "trainer/global_step", "global_step"])
def test_wandb_rows_are_taken_by_the_jobs_own_steps(tmp_path: Path, name: str) -> None:
    """A Trainer logs every 10 steps, and something else is logged between: _step counts both."""
    rows = [wandb_row(call, **({name: 5 * call} if call % 2 == 0 else {"gpu": 1.0})) for call in range(0, 12)]
    rows.append(wandb_row(12, **{name: 60, "train/train_runtime": 99.0, "train/train_steps_per_second": 1.0}))

    series = read_series(written(tmp_path / "wandb-history.jsonl", *rows))

    (track,) = series.tracks
    assert track.step.tolist() == [10, 20, 30, 40, 50, 60]
    assert track.seconds == pytest.approx([0.5] * 6)
    assert track.covers == 10
    assert not any("wandb.log" in note for note in series.notes)


def test_wandb_rows_that_have_log_calls_alone_say_so(tmp_path: Path) -> None:
    series = read_series(written(tmp_path / "history.jsonl", *(wandb_row(call) for call in range(5))))

    assert series.tracks[0].seconds == pytest.approx([2.5] * 4)
    assert any("_step counts calls of wandb.log" in note and "--step-column" in note for note in series.notes)
