"""What a remedy is predicted to buy: its range, what is left of it after another, and when nothing is said."""

import pytest
from analysed import COMM, GEMM, capture_failed
from kineto import Trace
from whatif.predicted import device_bound, loading, predictor, rule, steps

from diagnose.predict.plan import pays
from diagnose.predict.replay import HostSpeeds, StepChange
from diagnose.predict.whatif import REPLAY_ERROR

ATTENTION = "kernels = { eager-attention = [0.25, 0.5] }"
NO_WAIT = "host = { data-wait = [0.0, 0.0] }"


def test_half_to_a_quarter_of_4_ms_in_10_gives_1_25_to_1_43() -> None:
    low, high = predictor(device_bound()).predict(rule(ATTENTION)) or (0, 0)

    assert low == pytest.approx(10 / 8, rel=0.01)
    assert high == pytest.approx(10 / 7, rel=0.01)


def test_a_wide_range_shows_its_true_best_case() -> None:
    found = predictor(device_bound()).predict(rule("kernels = { all = [0.1, 0.9] }"))

    assert found == pytest.approx((1 / 0.9, 10), rel=0.01)


def test_an_unknown_best_case_leaves_what_it_buys_at_least() -> None:
    found = predictor(device_bound()).predict(rule("kernels = { eager-attention = ['=padding_share', 0.5] }"))

    assert found is not None
    assert found[0] == pytest.approx(10 / 8, rel=0.01)
    assert found[1] is None


def test_a_range_is_at_least_as_wide_as_the_replay_is_wrong() -> None:
    """The products take 5 ms of 10, whichever of the two factors holds to three digits."""
    exact = predictor(device_bound()).predict(rule("kernels = { matrix = [0.5, 0.5] }"))
    estimate = predictor(device_bound()).predict(rule("kernels = { matrix = [0.5, 0.501] }"))

    assert exact == pytest.approx((4 / 3, 4 / 3), rel=0.01)
    assert estimate == pytest.approx((4 / 3 / (1 + REPLAY_ERROR), 4 / 3), rel=0.01)


def updating(job: Trace) -> None:
    """4 ms of host time for 20 launches of the optimizer, each of a kernel of 10 us."""
    with job.optimizer():
        for _ in range(20):
            job.op("aten::add_", [[512, 512]], GEMM, 10, host_us=197)


def test_host_time_that_a_remedy_states_is_not_taken_off_again_by_what_fuses() -> None:
    """A fifth of the optimizer's host time is left, whether its launches become one or not."""
    stated, fused = "host = { optimizer-host = [0.2, 0.2] }", "kernels = { optimizer = [1, 1] }\nfuses = ['optimizer']"
    found = predictor(steps(updating))

    alone, both = found.predict(rule(stated, "stated")), found.predict(rule(f"{fused}\n{stated}", "both"))

    assert alone is not None
    assert both is not None
    assert alone[1] == pytest.approx(5, rel=0.05)
    assert both[1] == pytest.approx(alone[1], rel=0.05)


def test_fewer_launches_of_the_model_are_none_of_the_optimizer() -> None:
    assert predictor(steps(updating)).predict(rule("launches = [0.5, 0.5]")) == pytest.approx((1, 1), abs=0.01)


def test_what_fuses_spares_the_host_nothing_in_the_worst_case() -> None:
    low, high = predictor(steps(updating)).predict(
        rule("kernels = { optimizer = [0.9, 1.0] }\nfuses = ['optimizer']")
    ) or (0, 0)

    assert low == 1.0
    assert high is not None
    assert high > 5


def test_factors_in_the_wrong_order_give_the_same_range() -> None:
    right, wrong = rule(ATTENTION), rule("kernels = { eager-attention = [0.5, 0.25] }")
    found = predictor(device_bound())

    assert found.predict(wrong) == found.predict(right)


def test_a_step_that_may_vanish_gains_what_the_worst_case_supports() -> None:
    found = predictor(device_bound()).predict(
        rule("kernels = { all = [0.0, 0.5] }\nhost = { dispatch = [0, 1], python = [0, 1], optimizer-host = [0, 1] }")
    )

    assert found is not None
    assert found[0] == pytest.approx(2.0, rel=0.02)
    assert found[1] is None, "nothing of the step is left: the best case is not known"


def test_what_passes_beside_other_work_is_not_promised() -> None:
    """8 ms of loading, then 20 calls of 300 us whose kernels take 100 us: the device idles 4 of these 6 ms."""

    def step(job: Trace) -> None:
        job.loader(ms=8)
        for _ in range(20):
            job.op("aten::mm", [[512, 512], [512, 512]], GEMM, 100, host_us=300)

    found, faster = predictor(steps(step)), rule("launches = [0.0, 0.1]")
    low, high = found.predict(faster) or (0, 0)
    saving = found.saving(faster)

    assert saving is not None
    assert low == pytest.approx(1 / (1 - saving.booked), rel=0.02)
    assert high is not None
    assert 1 - 1 / high == pytest.approx(saving.booked + saving.hidden, abs=0.01)
    assert saving.hidden > 0.02
    assert "the low end promises no more" in found.assumes(faster)


def test_a_change_that_costs_time_is_no_speedup_and_may_be_the_opposite() -> None:
    found = predictor(device_bound()).predict(rule("kernels = { all = [1.2, 1.5] }"))

    assert found == (pytest.approx(1 / 1.5, rel=0.05), 1.0)
    assert not pays(found)


def test_a_change_that_may_cost_time_says_so() -> None:
    low, high = predictor(device_bound()).predict(rule("kernels = { all = [0.5, 1.5] }")) or (0, 0)

    assert low == pytest.approx(1 / 1.5, rel=0.05)
    assert high == pytest.approx(2, rel=0.05)


def test_what_a_replay_cannot_tell_is_no_loss() -> None:
    assert predictor(device_bound()).predict(rule("kernels = { all = [0.8, 1.01] }"))[0] == 1.0  # type: ignore[index]


def test_a_data_wait_hidden_behind_the_device_buys_nothing() -> None:
    def hidden(job: Trace) -> None:
        job.loader(ms=3)
        for _ in range(10):
            job.op("aten::mm", [[512, 512], [512, 512]], GEMM, 1000)

    assert predictor(steps(hidden)).predict(rule(NO_WAIT)) == pytest.approx((1.0, 1.0), abs=0.005)


def test_a_data_wait_that_the_device_shows_buys_what_it_took() -> None:
    assert predictor(loading(4, 10)).predict(rule(NO_WAIT)) == pytest.approx((1.4, 1.4), rel=0.02)


def test_the_same_group_again_buys_what_is_left_of_it() -> None:
    first, again = rule(ATTENTION, "first"), rule(ATTENTION, "again")
    found = predictor(device_bound())

    alone, after = found.predict(again), found.predict(again, [first])

    assert alone is not None
    assert after == pytest.approx((7 / 6.25, 8 / 7), rel=0.01), "10 to 7 to 6.25 ms at best, 10 to 8 to 7 at worst"
    assert after[0] <= alone[0] + 1e-6
    assert after[1] <= alone[1] + 1e-6


def test_kernels_buy_more_once_the_wait_beside_them_is_gone() -> None:
    faster, found = rule("kernels = { matrix = [0.5, 0.5] }"), predictor(loading(4, 10))

    alone, after = found.predict(faster), found.predict(faster, [rule(NO_WAIT, "no-wait")])

    assert alone == pytest.approx((14 / 9, 14 / 9), rel=0.02)
    assert after == pytest.approx((2.0, 2.0), rel=0.02)


def test_twice_the_tokens_cost_twice_the_kernels_and_once_the_optimizer() -> None:
    found = predictor(device_bound()).predict(rule('batch = ["=2", "=2"]'))

    assert found == pytest.approx((2 * 10 / 19, 2 * 10 / 19), rel=0.01)


def test_twice_the_tokens_take_twice_as_long_to_load() -> None:
    assert predictor(loading(10, 10)).predict(rule('batch = ["=2", "=2"]')) == pytest.approx((1, 1), abs=0.02)


def test_without_a_gpu_twice_the_tokens_take_twice_as_long_to_compute() -> None:
    job = steps(lambda job: job.cpu_op("aten::mm", 5000), gpu=None)

    assert predictor(job).predict(rule('batch = ["=2", "=2"]')) == pytest.approx((1, 1), abs=0.02)


def test_without_a_gpu_host_time_is_foretold_and_kernels_are_not() -> None:
    def step(job: Trace) -> None:
        job.loader(ms=6)
        job.cpu_op("aten::mm", 4000)

    found = predictor(steps(step, gpu=None))

    assert found.predict(rule(NO_WAIT)) == pytest.approx((2.5, 2.5), rel=0.02)
    assert found.predict(rule("kernels = { matrix = [0.5, 0.5] }")) is None


@pytest.mark.parametrize(
    "whatif",
    [
        "host = { data-wait = ['=1 - padding_share', 1.0] }",
        "batch = [1.5, '=memory_free_share + 1']",
        "kernels = { unfused-norm = [0.1, '=padding_share'] }",
        'removes = "padding_share"',
    ],
)
def test_an_unknown_fact_predicts_nothing(whatif: str) -> None:
    assert predictor(loading(4, 10)).predict(rule(whatif)) is None


def test_a_group_that_the_trace_cannot_tell_predicts_nothing() -> None:
    def no_operators(job: Trace) -> None:
        job.launch("softmax_warp_forward", 1000)

    assert predictor(steps(no_operators)).predict(rule(ATTENTION)) is None


def test_a_trace_without_gpu_activity_predicts_bounds_only() -> None:
    found = predictor(capture_failed(device_bound()))

    assert not found.replay.valid
    assert found.predict(rule(NO_WAIT)) is None
    assert found.predict(rule('removes = "0.2"')) == pytest.approx((1, 1.25))


def host_bound(job: Trace) -> None:
    for _ in range(100):
        job.op("aten::add", kernel=GEMM, gpu_us=50, host_us=97)


def test_steps_without_the_profiler_tell_how_fast_the_host_is() -> None:
    faster = "launches = [0.5, 0.5]"
    unprofiled = {"steps": {"control_before_ns": [6_000_000] * 3, "control_after_ns": [6_000_000] * 3}}

    profiled, calibrated = predictor(steps(host_bound)), predictor(steps(host_bound), record=unprofiled)

    assert profiled.predict(rule(faster)) == pytest.approx((1.9, 2.0), rel=0.03)
    step = calibrated.replay
    assert step.step_ns(StepChange(host_speeds=calibrated.host_speeds)) == pytest.approx(6_000_000, rel=0.02)
    assert calibrated.predict(rule(faster)) == pytest.approx((1.2, 1.2), rel=0.03)


@pytest.mark.parametrize("steps_of", [{}, {"control_before_ns": []}, {"control_before_ns": "?"}, [], None])
def test_without_such_steps_the_host_keeps_its_speed(steps_of: object) -> None:
    assert predictor(steps(host_bound), record={"steps": steps_of}).host_speeds == HostSpeeds()


def synchronising(job: Trace) -> None:
    for _ in range(5):
        job.op("aten::mm", [[512, 512], [512, 512]], GEMM, 500)
        job.item()
        job.host(500)
    if job.world > 1:
        job.collective("allreduce", 1 << 20, 100, wait=True)


def test_one_rank_of_many_may_wait_for_the_others_instead_of_the_device() -> None:
    sync = rule('waits = "sync"')

    alone = predictor(steps(synchronising)).predict(sync)
    of_many = predictor(steps(synchronising, world=2)).predict(sync)

    assert alone is not None
    assert of_many is not None
    assert alone[0] > 1.3
    assert of_many[0] == 1.0
    assert of_many[1] > 1.3


def test_collectives_that_are_hidden_free_the_kernels_behind_them() -> None:
    def step(job: Trace) -> None:
        job.launch(GEMM, 1000)
        job.launch(COMM, 1000, stream=23, after=job.stream_end[7])
        job.wait(23)
        job.launch(GEMM, 1000)

    low, high = predictor(steps(step)).predict(rule("hides = true")) or (0, 0)

    assert low == high == pytest.approx(1.5, rel=0.05)
