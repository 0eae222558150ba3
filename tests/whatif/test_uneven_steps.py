"""Without a GPU a prediction rests on all counted steps, and its range on how far they lie apart."""

import numpy as np
import pytest
from kineto import Trace
from whatif.predicted import predictor, rule

from diagnose.predict.whatif import Predictor

NO_WAIT = "host = { data-wait = [0.0, 0.0] }"


def uneven(*waits_ms: float) -> Predictor:
    """4 ms of work in each step, after a wait for data that differs."""
    job = Trace(gpu=None)
    for ms in waits_ms:
        with job.step():
            job.loader(ms=ms)
            job.cpu_op("aten::mm", 4000)
    return predictor(job)


def test_without_a_gpu_all_counted_steps_are_replayed_and_not_the_usual_ones_alone() -> None:
    found = uneven(*[1.0] * 6, 15.0, 15.0)

    assert found.replay.step_ns() == pytest.approx(
        np.mean([5, 5, 5, 5, 5, 19, 19]) * 1e6, rel=0.02
    )  # the first is none


def test_the_low_end_holds_what_other_draws_of_the_same_steps_would_have_told_and_the_high_end_the_mean() -> None:
    low, high = uneven(*[1.0] * 6, 15.0, 15.0).predict(rule(NO_WAIT)) or (0, 0)
    even_low, even_high = uneven(*[5.0] * 8).predict(rule(NO_WAIT)) or (0, 0)
    more_low, more_high = uneven(*[*[1.0] * 6, 15.0, 15.0] * 4).predict(rule(NO_WAIT)) or (0, 0)

    assert (even_low, even_high) == pytest.approx((2.25, 2.25), rel=0.02)
    assert low < 1.5 < 2.25  # two slow steps of seven: another window may hold none of them
    assert low < more_low < more_high
    assert high == pytest.approx(9 / 4, rel=0.02), "5 of 9 ms of the mean step go"


def test_a_range_holds_no_more_than_some_step_would_gain() -> None:
    low, high = uneven(1.0, 1.0, 20.0).predict(rule(NO_WAIT)) or (0, 0)

    assert 1.25 * 0.99 <= low < high <= 6.0 * 1.01


def test_a_change_that_costs_time_gains_nothing_in_any_draw() -> None:
    low, high = uneven(1.0, 1.0, 20.0).predict(rule("host = { data-wait = [1.5, 1.5] }")) or (0, 0)

    assert high == 1.0
    assert 1 / 1.5 <= low < 1


def test_where_the_best_case_is_unknown_the_worst_one_is_as_unsure() -> None:
    slow = "host = { data-wait = ['=0 * padding_share', 0.0] }"
    low, high = uneven(*[1.0] * 6, 15.0, 15.0).predict(rule(slow)) or (0, 0)

    assert high is None
    assert low < 1.5
