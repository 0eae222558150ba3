"""Long steps of a noisy job: listed whatever the noise, and said to be no more than that."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnose.commands.series.answer import SeriesReport
from diagnose.commands.series.judge import judged
from diagnose.commands.series.views import head
from diagnose.series import Series, Track


def job(sigma: float, times: float, steps: int = 600, seed: int = 0) -> SeriesReport:
    """Steps of half a second with log-normal noise, of which the middle one takes `times` the median."""
    seconds = 0.5 * np.exp(sigma * np.random.default_rng(seed).standard_normal(steps))
    seconds[steps // 2] = times * np.median(seconds)
    return judged(Series("csv", (), "", (Track(0, "", np.arange(1, steps + 1), seconds),)))


@given(sigma=st.floats(0.02, 0.6), times=st.floats(8, 100), seed=st.integers(0, 10**6))
def test_a_step_of_eight_medians_is_listed_at_any_noise(sigma: float, times: float, seed: int) -> None:
    report = job(sigma, times, seed=seed)

    assert any(one.step <= 301 <= one.last_step for one in (*report.stalls, *report.longest))


def test_a_step_that_the_noise_may_make_is_said_to_be_no_more_than_that() -> None:
    report = job(0.6, 8)
    first = max(report.longest, key=lambda one: one.time_s)

    assert (report.stalls, first.step, first.told_from_noise) == ((), 301, False)
    assert first.cost_s == pytest.approx(7 * 0.5, rel=0.15)
    assert head(report)[0].text.startswith(
        f"{len(report.longest)} long steps, not told from noise; the longest: step 301"
    )


def test_a_step_is_told_once() -> None:
    """A stall is in no second list."""
    report = job(0.05, 60)

    assert [stall.step for stall in report.stalls] == [301]
    assert report.longest == ()


def test_noise_alone_lists_no_step_of_a_quiet_job() -> None:
    assert [report.longest for seed in range(5) if (report := job(0.2, 1, seed=seed)).longest] == []
