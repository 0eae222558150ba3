"""A gain from three steps or fewer carries at least 15 % of what it saves, or of itself where that is less."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from whatif.predicted import device_bound, loading, predictor, rule, steps

from diagnose.predict.spread import LEAST_SPREAD, spread
from diagnose.predict.whatif import Predictor

NO_WAIT = "host = { data-wait = [0.0, 0.0] }"


def waiting(count: int, unprofiled: int = 0, timed: str = "") -> Predictor:
    """Steps on the host that wait 5 ms for data and compute 5 ms, and others without the profiler with that range."""

    def step(job: object) -> None:
        job.loader(ms=5)  # type: ignore[attr-defined]
        job.cpu_op("aten::mm", 5000)  # type: ignore[attr-defined]

    ns = [10_000_000] * unprofiled
    ranges = {"unprofiled_ranges_ns": {timed: [each // 2 for each in ns]}} if timed else {}
    record: dict[str, object] = {"steps": {"control_before_ns": ns, "unprofiled_host_ns": ns} | ranges}
    return predictor(steps(step, count, gpu=None), record=record if unprofiled else None)


@given(st.floats(0.2, 100))
def test_the_ends_lie_so_far_out_and_a_sure_gain_stays_above_1(gain: float) -> None:
    low, high = spread(gain)

    assert low <= gain <= high
    assert (low > 1) == (gain > 1) or gain == pytest.approx(1)
    assert gain / low <= 1 + LEAST_SPREAD + 1e-9
    assert high / gain <= 1 + LEAST_SPREAD + 1e-9


@pytest.mark.parametrize(("gain", "ends"), [
    (1.1, (1 / (1 - 0.85 * (1 - 1 / 1.1)), 1 / (1 - 1.15 * (1 - 1 / 1.1)))),  # of the time that is saved
    (7.5, (7.5 / 1.15, 7.5 * 1.15)),  # of the gain: a straggler's cure that came at 7.26
    (1.0, (1.0, 1.0)),
])  # fmt: skip
def test_a_small_gain_is_spread_by_the_time_it_saves_and_a_large_one_by_itself(
    gain: float, ends: tuple[float, float]
) -> None:
    assert spread(gain) == pytest.approx(ends)


WAIT, OTHER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "Optimizer.step#SGD.step"


@pytest.mark.parametrize(("count", "unprofiled", "timed", "few"), [
    (3, 0, "", True),
    (6, 0, "", False),
    (3, 6, "", True),  # their whole time says nothing of the wait
    (3, 6, OTHER, True),
    (3, 6, WAIT, False),
    (3, 3, WAIT, True),
])  # fmt: skip
def test_more_steps_say_more_and_those_without_the_profiler_by_their_ranges(
    count: int, unprofiled: int, timed: str, few: bool
) -> None:
    low, high = waiting(count, unprofiled, timed).predict(rule(NO_WAIT)) or (0, 0)

    assert (low < 1.9) is few
    assert high == pytest.approx(2, rel=0.02), "no more goes than all of the wait"


def test_what_may_become_longer_is_known_from_few_steps_too() -> None:
    slower = rule("host = { data-wait = [0.0, 0.0], operators = [1.1, 1.2] }")

    low, _ = waiting(3, 6, WAIT).predict(slower) or (0, 0)

    assert low < 1.6, "not 10 / 6"


def test_a_share_that_disappears_by_few_steps_is_spread_too_but_not_beyond_it() -> None:
    """Such is the cure of a straggler."""
    cured = rule(
        'removes = "0.5 * step_count / step_count"\nremoves_at_least = "0.48 * step_count / step_count"\n'
        'assumes = "the rank keeps up"\nsource = "the test"'
    )

    assert predictor(loading(4, 10, 2)).predict(cured) == pytest.approx((1 / (1 - 0.85 * 0.48), 2.0))
    assert predictor(loading(4, 10, 9)).predict(cured) == pytest.approx((1 / 0.52, 2.0))


def test_what_is_saved_over_the_run_is_not_of_these_steps() -> None:
    cured = rule(
        'removes = "0.5 * step_count / step_count"\nremoves_at_least = "0.48 * step_count / step_count"\n'
        'over = "run"\nassumes = "as the run tells"\nsource = "the test"'
    )

    assert predictor(loading(4, 10, 2)).predict(cured) == pytest.approx((1 / 0.52, 2.0))


def test_on_a_device_too() -> None:
    half = rule("kernels = { matrix = [0.5, 0.5] }")

    few, more = predictor(device_bound(3)).predict(half) or (0, 0), predictor(device_bound(6)).predict(half) or (0, 0)

    assert few[0] < more[0]
    assert few[1] == pytest.approx(more[1], rel=0.01)
