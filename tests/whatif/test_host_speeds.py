"""What of the profiler's cost lies on which part of a step: a part that records little keeps its time."""

import pytest
from kineto import Trace
from whatif.predicted import predictor, rule, steps

from diagnose.facts import Unknown
from diagnose.metrics.run.steps import least_unprofiled_gc_share, most_unprofiled_gc_share
from diagnose.predict.whatif import Predictor

MS = 1_000_000
MANY, FEW = "host = { operator-optimizer = [0.0, 0.0] }", "host = { operator-compute = [0.0, 0.0] }"


def two_halves(job: Trace) -> None:
    """1 ms in 200 operators of the optimizer, and 1 ms in one product."""
    with job.optimizer():
        for _ in range(200):
            job.op("aten::mul_", [[8]], host_us=5)
    job.op("aten::mm", [[512, 512], [512, 512]], host_us=1000)


def job(unprofiled_ms: float, **timed: object) -> Predictor:
    each = [round(unprofiled_ms * MS)] * 3
    control = {"control_before_ns": each, "control_after_ns": each, **timed}
    return predictor(steps(two_halves, gpu=None), record={"steps": control})


def test_many_small_operators_are_a_smaller_part_of_a_step_without_the_profiler() -> None:
    """Of 2 ms 1.5 are left: half a millisecond in 201 operators, 2.5 us each."""
    found = job(1.5)

    assert found.predict(rule(MANY)) == pytest.approx((1.5 / 1.0, 1.5 / 1.0), rel=0.02)
    assert found.predict(rule(FEW, "few")) == pytest.approx((1.5 / 0.5, 1.5 / 0.5), rel=0.02)


def test_no_part_goes_below_what_a_profiler_can_explain() -> None:
    """200 operators would have to take less than nothing: some of their time stays, and the product gets shorter."""
    found = job(0.9)

    assert found.host_speeds.of("operator-optimizer") >= 0.2
    assert found.host_speeds.of("operator-compute") < 1


def test_a_range_of_the_steps_without_the_profiler_tells_the_part() -> None:
    """The optimizer took 0.6 ms of 1.2, whatever its events say."""
    found = job(1.2, unprofiled_host_ns=[1_200_000] * 2, unprofiled_ranges_ns={"diagnose.optimizer": [600_000] * 2})

    assert found.predict(rule("host = { operator-optimizer = [0.0, 0.0], optimizer-host = [0.0, 0.0] }")) == (
        pytest.approx((2.0, 2.0), rel=0.02)
    )


def test_where_nothing_was_timed_the_parts_are_as_profiled() -> None:
    found = predictor(steps(two_halves, gpu=None))

    assert found.predict(rule(FEW, "few")) == pytest.approx((2.0, 2.0), rel=0.02)


def test_pauses_of_the_collector_are_those_of_the_steps_without_the_profiler() -> None:
    """One step in five of 1 ms lasts 6 ms, 5 of them the collector's: half of the time, more or less by the draw."""
    each, pauses = [MS, MS, MS, MS, 6 * MS] * 20, [0, 0, 0, 0, 5 * MS] * 20
    found = job(1.0, unprofiled_host_ns=each, unprofiled_gc_ns=pauses).measured
    least, most = least_unprofiled_gc_share(found), most_unprofiled_gc_share(found)

    assert isinstance(least, float)
    assert isinstance(most, float)
    assert 0.35 < least < 0.5 < most < 0.6


@pytest.mark.parametrize(
    ("steps", "pauses"),
    [
        ([MS] * 20, []),
        ([MS] * 20, [0] * 19),
        ([MS] * 20, [None] + [0] * 19),
        ([0] + [MS] * 19, [0] * 20),
        ([MS] * 19, [MS] * 19),
    ],
)
def test_collections_that_were_not_timed_in_many_steps_tell_nothing(steps: list[int], pauses: list[int | None]) -> None:
    found = job(1.0, unprofiled_host_ns=steps, unprofiled_gc_ns=pauses).measured

    assert isinstance(most_unprofiled_gc_share(found), Unknown)


def test_of_many_steps_the_last_thousand_are_drawn() -> None:
    each = job(1.0, unprofiled_host_ns=[MS] * 60_000, unprofiled_gc_ns=[MS] * 59_000 + [0] * 1000).measured

    assert most_unprofiled_gc_share(each) == 0.0
