"""Logs that count samples: told by a column or by the user, and where neither tells, what was assumed."""

from pathlib import Path

import numpy as np
import pytest

from diagnose.errors import WrongUsage
from diagnose.series import read_runs

CLOCK = np.cumsum(np.where(np.arange(100) == 50, 20.5, 0.5))


def log(folder: Path, heads: str, cells: str = "", apart: int = 64) -> list[Path]:
    path = folder / "log.csv"
    rows = [f"{apart * at},{1.7e9 + clock:.3f}{cells}" for at, clock in enumerate(CLOCK, 1)]
    path.write_text("\n".join([heads, *rows]))
    return [path]


def test_the_time_of_a_step_is_the_same_however_the_log_tells_its_samples(tmp_path: Path) -> None:
    by_column = read_runs(log(tmp_path, "step,timestamp,global_batch_size", ",64"))
    by_user = read_runs(log(tmp_path, "step,timestamp"), samples_per_step=64)

    for series in (by_column, by_user):
        (track,) = series.tracks
        assert (np.median(track.seconds), track.steps_each) == (pytest.approx(0.5), 1)
        assert not any("apart" in note for note in series.notes)


def test_rows_that_are_apart_say_what_was_assumed(tmp_path: Path) -> None:
    (note,) = read_runs(log(tmp_path, "step,timestamp")).notes

    assert note.startswith("rows are 64 steps apart, and each stands for so many steps")
    assert note.endswith("--samples-per-step 64")


def test_a_trainer_that_logs_every_tenth_step_is_not_doubted(tmp_path: Path) -> None:
    assert read_runs(log(tmp_path, "train/global_step,timestamp", apart=10)).notes == ()


def test_a_log_of_single_steps_counts_no_samples(tmp_path: Path) -> None:
    with pytest.raises(WrongUsage, match="rows of the log are 1 apart"):
        read_runs(log(tmp_path, "step,timestamp", apart=1), samples_per_step=64)


def test_lines_of_a_loop_of_ones_own_may_count_samples_and_those_of_megatron_do_not(tmp_path: Path) -> None:
    def notes_of(line: str) -> tuple[str, ...]:
        path = tmp_path / "train.log"
        path.write_text("\n".join(line.format(step=64 * at) for at in range(1, 60)))
        return read_runs([path]).notes

    assert notes_of("step {step} loss 2.0 step_time 0.5s")[0].startswith("rows are 64 steps apart")
    assert notes_of("iteration {step}/ 9999 | elapsed time per iteration (ms): 500.0 |") == ()
