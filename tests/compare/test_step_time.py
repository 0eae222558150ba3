"""The mean step, its error, and the interval that two of them give."""

import numpy as np
import pytest

from diagnose.formulas.statistics import t_quantile
from diagnose.judge.mean_step import (
    MOST_STEPS,
    block_length,
    half_width,
    means_of_neighbours,
    of_summary,
    step_time,
    without_start,
)


def test_one_slow_step_among_usual_ones_is_left_out() -> None:
    found = step_time([126, 127, 123, 164, 124])

    assert found.mean_ns == 125
    assert found.kept.tolist() == [True, True, True, False, True]


def test_slow_steps_that_come_again_count() -> None:
    found = step_time([100, 100, 200, 100, 100, 200])

    assert found.mean_ns == pytest.approx(133.3, abs=0.1)
    assert found.kept.all()


def test_a_few_stalls_among_hundreds_of_uneven_steps_are_left_out() -> None:
    uneven = [100.0, 130.0] * 200
    found = step_time([*uneven, 50_000, 9_000])

    assert found.mean_ns == 115
    assert found.steps == 400


def test_the_same_steps_have_the_same_error() -> None:
    steps = np.random.default_rng(7).normal(100, 5, 60).tolist()

    assert step_time(steps).error == step_time(steps).error


def test_the_error_of_independent_steps_is_that_of_their_mean() -> None:
    steps = np.random.default_rng(1).normal(100, 5, 400)

    assert step_time(steps.tolist()).error == pytest.approx(0.05 / np.sqrt(400), rel=0.2)


def test_steps_that_follow_each_other_alike_tell_less() -> None:
    seeded = np.random.default_rng(3)
    drift = np.repeat(seeded.normal(100, 5, 40), 10)
    shuffled = seeded.permutation(drift)

    assert block_length(drift) > 3 * block_length(shuffled)
    assert (step_time(drift.tolist()).error or 0) > 2 * (step_time(shuffled.tolist()).error or 1)


def test_three_steps_tell_less_than_their_deviation_says() -> None:
    few, many = step_time([98, 100, 102]), step_time([98, 100, 102] * 30)

    assert few.error is not None
    assert many.error is not None
    assert t_quantile(0.005, few.freedom) == pytest.approx(9.925, rel=1e-4)
    assert t_quantile(0.005, many.freedom) < 2.7
    assert half_width(few, few, 0.0) > 10 * half_width(many, many, 0.0)  # type: ignore[operator]


def test_where_a_machine_drifts_more_steps_do_not_tell_more() -> None:
    seeded = np.random.default_rng(5)
    slow = np.repeat([100.0, 130.0, 95.0, 120.0, 110.0], 48) + seeded.normal(0, 1, 240)
    steady = step_time(seeded.normal(100, 5, 240).tolist())
    drifting = step_time(slow.tolist())

    assert drifting.drift_share == pytest.approx(slow.reshape(5, 48).mean(axis=1).std(ddof=1) / slow.mean(), rel=0.02)
    assert steady.drift_share < 0.01
    assert half_width(drifting, drifting, 0.05, drifts=True) > 2 * half_width(drifting, drifting, 0.05)  # type: ignore[operator]
    assert half_width(steady, steady, 0.05, drifts=True) < 1.2 * half_width(steady, steady, 0.05)  # type: ignore[operator]


@pytest.mark.parametrize("count", [1, 2, 9])
def test_few_steps_tell_no_drift(count: int) -> None:
    assert step_time([100.0 + 30 * (number % 2) for number in range(count)]).drift_share == 0


def test_even_steps_leave_the_floor() -> None:
    even = step_time([100, 100, 100])

    assert half_width(even, even, 0.015) == pytest.approx(np.log1p(0.015))


def test_a_single_step_is_taken_to_be_as_noisy_as_the_other_side() -> None:
    many, one = step_time([95, 105] * 10), step_time([100])

    assert half_width(one, one, 0.01) is None
    assert half_width(many, one, 0.01) > half_width(many, many, 0.01)  # type: ignore[operator]


def test_mean_and_deviation_are_enough() -> None:
    listed, told = step_time([97.0, 103.0] * 20), of_summary(100.0, 0.03, 40)

    assert told.mean_ns == listed.mean_ns
    assert told.error == pytest.approx(listed.error, rel=0.5)


def test_a_log_begins_with_its_first_usual_step() -> None:
    assert without_start(np.array([40.0, 3.0, 1.1, 1.0, 9.0, 1.0, 1.0])).tolist() == [1.1, 1.0, 9.0, 1.0, 1.0]


def test_a_long_log_becomes_means_of_neighbours() -> None:
    steps = np.arange(2501, dtype=float)
    kept = means_of_neighbours(steps)

    assert len(kept) <= MOST_STEPS
    assert kept[:2].tolist() == [1.0, 4.0]
