"""From files to step times: what is read as what, what is left out, and what is refused."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kineto import Trace as Job

from diagnose.commands.series.judge import judged
from diagnose.errors import UserError
from diagnose.series import read_runs, read_series, series_beside


def written(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("header", "cells", "says"),
    [
        ("step,step_time_ms", ["1,250", "2,250", "3,250"], "milliseconds"),
        ("iteration;elapsed_time_per_iteration (ms)", ["1;250,0", "2;250,0", "3;250,0"], "milliseconds"),
        ("global_step\ttime", ["1\t0.25", "2\t0.25", "3\t0.25"], "read as seconds, since its name states no unit"),
        ("step,steps_per_second", ["1,4", "2,4", "3,4"], "inverse of a rate"),
        ("_step,_timestamp", ["0,1700000000.0", "1,1700000000.25", "2,1700000000.5", "3,1700000000.75"], "clock in s"),
        ("step,timestamp", ["0,1700000000000", "1,1700000000250", "2,1700000000500", "3,1700000000750"], "millisecond"),
        ("step,time", [f"{i},2026-01-05T10:00:{i * 0.25:09.6f}" for i in range(4)], "clock in seconds"),
        ("step,elapsed_s", ["10,5", "20,7.5", "30,10", "40,12.5"], "clock in seconds"),
    ],
)
def test_columns_are_told_by_their_names(tmp_path: Path, header: str, cells: list[str], says: str) -> None:
    series = read_series(written(tmp_path / "log.csv", header, *cells))

    (track,) = series.tracks
    assert track.seconds == pytest.approx([0.25] * 3)
    assert says in series.unit


def test_a_stated_unit_wins_where_the_name_states_none(tmp_path: Path) -> None:
    log = written(tmp_path / "log.csv", "step,step_time", "1,250", "2,250")

    assert read_series(log, "ms").tracks[0].seconds == pytest.approx([0.25, 0.25])


def test_a_log_without_times_is_refused_with_its_columns(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        read_series(written(tmp_path / "log.csv", "step,loss", "1,4.2"))

    assert "columns: step, loss" in str(error.value)
    assert "--time-column NAME" in error.value.do
    assert "step_time_s" in error.value.do


def test_ranks_and_hosts_make_tracks_and_missing_ranks_are_named(tmp_path: Path) -> None:
    rows = [f"{step},{rank},node{rank // 2},0.3" for step in range(30) for rank in (0, 1, 3)]
    series = read_series(written(tmp_path / "log.csv", "step,rank,host,step_time_s", *rows))

    assert [(t.rank, t.host, len(t)) for t in series.tracks] == [(0, "node0", 30), (1, "node0", 30), (3, "node1", 30)]
    assert any("1 ranks are not in the log: 2" in note for note in series.notes)


def test_a_resumed_job_is_told_and_steps_trained_twice_count_once(tmp_path: Path) -> None:
    first, second = [f"{s},0.3" for s in range(1, 101)], [f"{s},0.6" for s in range(81, 151)]
    series = read_series(written(tmp_path / "log.csv", "step,step_time_s", *first, *second))

    (track,) = series.tracks
    assert track.step.tolist() == list(range(1, 151))
    assert track.seconds[79:81].tolist() == [0.3, 0.6]
    assert series.restarts == (81,)
    assert any("resumed at step 81" in note for note in series.notes)


def test_bad_rows_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = ["1,0.3", "2,nan", "3,-1", "x,0.3", "4,0.3", "4,0.3", "5", "6,inf", "0,0.3", "7,0.3", "1e400,1", "8,0.3"]
    series = read_series(written(tmp_path / "log.csv", "step,step_time_s", *rows))

    assert series.tracks[0].step.tolist() == [1, 4, 7, 8]
    assert any("rows have no step or no positive time" in note for note in series.notes)
    assert series.restarts == ()


def test_shuffled_rows_are_sorted(tmp_path: Path) -> None:
    order = np.random.default_rng(0).permutation(100)
    series = read_series(written(tmp_path / "log.csv", "step,step_time_s", *(f"{i},0.{i + 100}" for i in order)))

    assert series.tracks[0].step.tolist() == list(range(100))
    assert series.tracks[0].seconds[7] == pytest.approx(0.107)
    assert any("sorted" in note for note in series.notes)


def test_a_clock_of_whole_seconds_is_taken_in_longer_pieces(tmp_path: Path) -> None:
    rows = [f"{step},{1_700_000_000 + int(step * 0.3)}" for step in range(3000)]
    series = read_series(written(tmp_path / "log.csv", "step,timestamp", *rows))

    assert np.median(series.tracks[0].seconds) == pytest.approx(0.3, rel=0.02)
    assert judged(series).changes == ()


def test_one_log_for_each_rank_is_one_job(tmp_path: Path) -> None:
    for rank in (0, 1):
        written(tmp_path / f"steps-rank{rank}.csv", "step,step_time_s", *(f"{s},0.3" for s in range(9)))

    assert [t.rank for t in read_series(tmp_path).tracks] == [0, 1]


def test_lines_of_json(tmp_path: Path) -> None:
    lines = [json.dumps({"step": s, "loss": 1.0, "step_time_ms": 300}) for s in range(5)]
    series = read_series(written(tmp_path / "log.jsonl", *lines, "not json"))

    assert series.tracks[0].seconds == pytest.approx([0.3] * 5)


def state(path: Path, history: list[dict[str, float]]) -> Path:
    path.write_text(json.dumps({"global_step": 100, "log_history": history}))
    return path


def test_a_trainer_state_with_run_times_less_its_evaluations(tmp_path: Path) -> None:
    """What transformers writes with include_num_input_tokens_seen: seconds since the start, evaluations beside them."""
    entries: list[dict[str, float]] = []
    for i in range(1, 7):
        entries.append(
            {"step": 10 * i, "loss": 2.0, "train_runtime": 3.0 * i + 5.0 * (i > 3), "num_input_tokens_seen": i}
        )
        if i == 3:
            entries.append({"step": 30, "eval_loss": 2.0, "eval_runtime": 5.0})
    entries.append({"step": 60, "train_loss": 2.0, "train_runtime": 99.0, "train_steps_per_second": 1.0})

    (track,) = read_series(state(tmp_path / "trainer_state.json", entries)).tracks

    assert track.step.tolist() == [20, 30, 40, 50, 60]
    assert track.seconds == pytest.approx([0.3] * 5)
    assert track.covers == 10


def test_a_trainer_state_without_times_says_what_to_set(tmp_path: Path) -> None:
    entries: list[dict[str, float]] = [{"step": 10 * i, "loss": float("nan"), "epoch": 0.1} for i in range(30)]
    entries.append({"step": 300, "train_loss": 1.0, "train_runtime": 600.0, "train_steps_per_second": 0.5})

    report = judged(read_series(state(tmp_path / "trainer_state.json", entries)))

    assert report.not_told is not None
    assert "include_num_input_tokens_seen" in report.not_told.capture_next
    assert any("2 s per step on average" in note for note in report.notes)


def test_what_the_probe_recorded(tmp_path: Path) -> None:
    steps = {
        "waiting_ns": [300_000_000] * 40,
        "control_before_ns": [300_000_000] * 3,
        "warmup_ns": [900_000_000] * 2,
        "active_ns": [900_000_000] * 4,
        "control_after_ns": [300_000_000] * 3,
        "first_active_step": 101,
        "clock": "device",
    }
    (tmp_path / "capture-rank0.json").write_text(json.dumps({"rank": 0, "host": "n0", "steps": steps}))

    series = series_beside(tmp_path / "rank0.json.gz")

    assert series is not None
    (track,) = series.tracks
    assert (track.host, track.seconds.max()) == ("n0", 0.3)
    assert track.step.tolist() == [*range(56, 99), 106, 107, 108]


def test_a_step_whose_beginning_the_probe_did_not_see_is_no_sample(tmp_path: Path) -> None:
    steps = {"waiting_ns": [None, 300_000_000, 300_000_000], "warmup_ns": [900_000_000], "first_active_step": 5}
    (tmp_path / "capture-rank0.json").write_text(json.dumps({"rank": 0, "steps": steps}))

    (track,) = read_series(tmp_path).tracks

    assert (track.step.tolist(), track.seconds.tolist()) == ([2, 3], [0.3, 0.3])


def test_several_windows_of_a_run_make_a_series_that_names_the_trace_to_look_at(tmp_path: Path) -> None:
    for window in range(12):
        job = Job(rank=0, first_step=100 * window)
        for i in range(5):
            with job.step():
                job.op("aten::mm", [[64, 64], [64, 64]], kernel="gemm", gpu_us=(1000 if window < 7 else 1300) + i)
                job.item()
        job.write(tmp_path / f"host_1.{1_700_000_000_000 + window}.pt.trace.json")

    report = judged(read_series(tmp_path))

    (change,) = report.changes
    assert 604 < change.since_step <= 702
    assert change.change_share == pytest.approx(0.3, abs=0.05)
    assert "Profiler" not in report.look[0].command
    assert report.look[0].files[0].endswith(f"{1_700_000_000_007}.pt.trace.json")


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00" * 5000, b"step,step_time_s\n", b"step,step_time_s\n" + b"9" * (3 << 20), b"\xff\xfe,\x80\n1,2\n"],
    ids=["empty", "zeros", "header only", "one long line", "not text"],
)
def test_hostile_logs_end_in_an_error_or_in_unknown(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "log.csv").write_bytes(content)

    try:
        report = judged(read_series(tmp_path / "log.csv"))
    except UserError:
        return
    assert report.not_told is not None


def test_a_folder_with_nothing_to_read(tmp_path: Path) -> None:
    assert series_beside(tmp_path) is None
    with pytest.raises(UserError, match="no step times in the folder"):
        read_series(tmp_path)


def test_no_more_than_the_stated_rows_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diagnose.series.steps_log.MOST_ROWS", 50)
    series = read_series(written(tmp_path / "log.csv", "step,step_time_s", *(f"{s},0.3" for s in range(500))))

    assert len(series.tracks[0]) == 50
    assert any("only the first" in note for note in series.notes)


@pytest.mark.parametrize("called", [str, Path, os.fspath])
def test_a_path_may_be_text(called: Any, tmp_path: Path) -> None:
    log = tmp_path / "l.csv"
    log.write_text("step,step_time_s\n" + "".join(f"{step},0.5\n" for step in range(20)))

    assert len(read_series(called(log)).tracks[0]) == 20
    assert len(read_runs([called(log)]).tracks[0]) == 20
