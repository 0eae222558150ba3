"""Since when a cause takes more of the jobs: a planted day is found, a level is none, few jobs tell nothing."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fleets import fleet_at, made_job, written

from diagnose.commands.fleet.answer import Fleet


def fleet_of(folder: Path, share: Callable[[int], float], days: int = 28) -> Fleet:
    """Two jobs a day, with what each waits for data."""
    jobs = {
        f"job{day:02}-{which}": made_job(
            causes={"data-wait": share(2 * day + which)}, began=f"2026-08-{day + 1:02}T{which:02}:00:00Z"
        )
        for day in range(days)
        for which in range(2)
    }
    return fleet_at(written(folder, jobs))


def test_the_day_since_which_data_takes_more_is_told(tmp_path: Path) -> None:
    spread = np.random.default_rng(3).normal(0, 0.02, 56).tolist()
    fleet = fleet_of(tmp_path, lambda i: (0.1 if i < 30 else 0.2) + spread[i])

    (trend,) = fleet.trends
    assert (trend.cause, trend.answer) == ("data-wait", "yes")
    assert trend.since_day in ("2026-08-15", "2026-08-16", "2026-08-17")
    assert trend.before_share == pytest.approx(0.1, abs=0.01)
    assert trend.after_share == pytest.approx(0.2, abs=0.01)


def test_what_goes_up_and_down_is_no_trend(tmp_path: Path) -> None:
    spread = np.random.default_rng(3).normal(0, 0.02, 56).tolist()

    assert [row.answer for row in fleet_of(tmp_path, lambda i: 0.1 + spread[i]).trends] == ["no"]


def test_a_few_days_tell_nothing(tmp_path: Path) -> None:
    (trend,) = fleet_of(tmp_path, lambda i: 0.1 if i < 6 else 0.4, days=6).trends

    assert (trend.answer, trend.jobs) == ("unknown", 12)


def test_jobs_of_one_time_have_no_order(tmp_path: Path) -> None:
    jobs = {f"job{i:02}": made_job(causes={"data-wait": 0.1 if i < 30 else 0.4}) for i in range(60)}
    (trend,) = fleet_at(written(tmp_path, jobs)).trends

    assert (trend.answer, trend.because) == (
        "unknown", "60 jobs with a date, of 1 time, are too few to tell a change from chance",
    )  # fmt: skip


def test_the_first_day_is_that_of_the_first_job_with_it(tmp_path: Path) -> None:
    fleet = fleet_of(tmp_path, lambda i: 0.01 if i < 8 else 0.05)

    assert {row.cause: row.first_day for row in fleet.causes} == {"data-wait": "2026-08-05", "gemm": "2026-08-01"}


def test_a_job_without_a_date_is_on_no_day(tmp_path: Path) -> None:
    fleet = fleet_at(written(tmp_path, {"a": made_job(began="", causes={"data-wait": 0.5})}))

    assert fleet.days == ()
    assert "1 job without a date: in no trend and on no day" in fleet.notes
