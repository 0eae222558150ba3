"""What a change buys on steps that can be added up by hand: a launch call takes 3 us, a sync returns after 2."""

from typing import Any

import numpy as np
import pytest
from analysed import ADD, GEMM, capture_failed, timeline, without
from kineto import Trace
from replay.replayed import US, gemms, halved, of_kind, replay, replay_of, steps, there_and_back

from diagnose.arrays import Coded
from diagnose.predict.replay import HostSpeeds, Replay, StepChange, host_speeds_for

# -- one stream ------------------------------------------------------------------------------------------------------


def test_a_launch_bound_step_is_its_host_time_and_faster_kernels_gain_nothing() -> None:
    line = timeline(steps(lambda job: gemms(job, 10, gpu_us=5, host_us=20)))
    found = replay_of(line)

    assert found.step_ns() == found.measured_ns == 10 * (20 + 3) * US
    assert found.step_ns(halved(line, "gemm")) == found.step_ns()
    assert found.step_ns(StepChange(host={"dispatch": 0.5})) == pytest.approx(found.step_ns() / 2)
    assert found.step_ns(StepChange(launches=0.5)) == pytest.approx(found.step_ns() / 2)
    assert found.step_ns(StepChange(host_speeds=HostSpeeds(0.8))) == pytest.approx(0.8 * found.step_ns())


def test_a_device_bound_step_is_its_kernels_and_a_faster_host_gains_nothing() -> None:
    line = timeline(steps(lambda job: gemms(job, 10, gpu_us=100, host_us=1)))
    found = replay_of(line)

    assert found.step_ns() == 10 * 100 * US
    assert found.step_ns(StepChange(host_speeds=HostSpeeds(0.1))) == found.step_ns()
    assert found.step_ns(halved(line, "gemm")) == 10 * 50 * US
    assert found.step_ns(StepChange(kernels=Coded.of(np.full(len(line.gpu), 0.01)))) == 10 * (1 + 3) * US, (
        "now the host bounds it"
    )


def test_a_kernel_that_vanishes_takes_its_launch_and_its_operator_with_it() -> None:
    def step(job: Trace) -> None:
        gemms(job, 5, gpu_us=5, host_us=20)
        for _ in range(5):
            job.op("aten::add", kernel=ADD, gpu_us=5, host_us=30)

    line = timeline(steps(step))
    found = replay_of(line).step_ns(StepChange(kernels=Coded.of(np.where(of_kind(line, "elementwise"), 0.0, 1.0))))

    assert found == 5 * (20 + 3) * US


def test_fused_kernels_are_launched_once_per_run_and_step() -> None:
    def step(job: Trace) -> None:
        gemms(job, 1, gpu_us=5, host_us=20)
        for _ in range(10):
            job.op("aten::add", kernel=ADD, gpu_us=4, host_us=30)

    line = timeline(steps(step))
    found = replay_of(line)
    add = of_kind(line, "elementwise")

    assert found.step_ns() == (23 + 10 * 33) * US
    assert found.step_ns(StepChange(merge=add)) == (23 + 33) * US
    assert found.step_ns(StepChange(merge=add, kernels=Coded.of(np.where(add, 10.0, 1.0)))) == pytest.approx(
        (5 + 10 * 40) * US, abs=2 * US
    )


def test_a_wait_for_data_that_the_device_works_through_costs_nothing() -> None:
    def step(job: Trace, load_us: float) -> None:
        job.loader(us=load_us)
        gemms(job, 3, gpu_us=100, host_us=2)

    hidden, shown = replay(steps(lambda job: step(job, 50))), replay(steps(lambda job: step(job, 900)))

    assert hidden.step_ns() == hidden.step_ns(StepChange(host={"data-wait": 0})) == 300 * US
    assert shown.step_ns() == (900 + 3 * 5) * US
    assert shown.step_ns(StepChange(host={"data-wait": 0})) == 300 * US


# -- waits -----------------------------------------------------------------------------------------------------------


def loss_every_step(job: Trace) -> None:
    gemms(job, 2, gpu_us=100, host_us=2)
    job.sync()
    job.host(50)


def test_without_its_wait_the_host_runs_ahead() -> None:
    line = timeline(steps(loss_every_step))
    found = replay_of(line)
    no_wait = np.zeros(len(line.trace), bool)
    no_wait[found.waits] = True

    assert found.step_ns() == found.measured_ns == (2 + 3 + 4 + 200 + 2 + 50) * US
    assert found.step_ns(StepChange(no_wait=no_wait)) == 200 * US
    assert found.step_ns(StepChange(host={"sync": 0})) == found.step_ns() - 2 * US, "the call is free, the wait is not"


def test_a_sync_that_found_the_device_idle_waits_once_the_host_is_faster() -> None:
    def step(job: Trace) -> None:
        gemms(job, 1, gpu_us=100, host_us=2)
        job.cpu_op("aten::sort", 300)
        job.sync()

    found = replay(steps(step))

    assert found.step_ns() == (2 + 3 + 300 + 2) * US
    assert found.step_ns(StepChange(host={"dispatch": 0})) == pytest.approx((4 + 3 + 100 + 2) * US, abs=4 * US)


@pytest.mark.parametrize(("pinned", "us"), [(True, 400), (False, 100 + 100 + 400)])
def test_only_copies_from_pageable_memory_hold_the_host(pinned: bool, us: float) -> None:
    def step(job: Trace) -> None:
        gemms(job, 1, gpu_us=100, host_us=1)
        job.copy(999_000 if not pinned else 10_000, pinned=pinned)  # 100 us from pageable memory
        job.host(380)

    assert replay(steps(step)).step_ns() == pytest.approx(us * US, rel=0.05)


@pytest.mark.long
def test_a_full_queue_holds_the_host_and_nothing_else() -> None:
    line = timeline(steps(lambda job: gemms(job, 1500, gpu_us=20, host_us=1), count=4))
    found = replay_of(line)

    assert found.strict_error < 1e-3
    assert found.step_ns() == 1500 * 20 * US
    assert found.step_ns(halved(line, "gemm")) == 1500 * 10 * US


@pytest.mark.long
def test_a_stall_is_hidden_up_to_what_the_queue_holds() -> None:
    def step(job: Trace) -> None:
        job.loader(us=25_000)
        gemms(job, 1500, gpu_us=20, host_us=1)

    found = replay(steps(step, count=4))

    assert found.strict_error < 1e-3
    assert 1500 * 20 * US < found.step_ns() < (25_000 + 1500 * 20) * US
    assert found.step_ns(StepChange(host={"data-wait": 0.5})) == 1500 * 20 * US


# -- steps -----------------------------------------------------------------------------------------------------------


def test_the_steps_closest_to_the_median_are_replayed() -> None:
    job = Trace()
    for gpu_us in (100, 100, 112, 104, 102, 115, 98):
        with job.step():
            gemms(job, 1, gpu_us, host_us=1)

    found = replay(job)

    assert found.steps == (0, 2, 3), "100, 104 and 102 us: the first step of the trace is not counted"
    assert found.measured_ns == pytest.approx(102 * US)
    assert found.step_ns() == pytest.approx(found.measured_ns)


def test_what_was_launched_before_the_trace_is_no_part_of_its_steps() -> None:
    job = steps(lambda job: gemms(job, 3, gpu_us=100, host_us=1), count=4)
    content = job.json()
    launches = [e for e in content["traceEvents"] if e["name"] == "cudaLaunchKernelExC"]
    content["traceEvents"] = [e for e in content["traceEvents"] if e not in launches[:3]]

    assert replay(content).step_ns() == 300 * US


def test_the_end_of_a_single_step_is_the_hosts_when_it_works_longer() -> None:
    def step(job: Trace) -> None:
        gemms(job, 2, gpu_us=10, host_us=50)
        job.host(400)

    found = replay(steps(step, count=1))

    assert found.measured_ns == found.step_ns() == (2 * 53 + 400) * US


# -- validity --------------------------------------------------------------------------------------------------------


def test_kernels_that_start_late_for_no_reason_make_the_replay_invalid() -> None:
    def step(job: Trace) -> None:
        for late in (0, 0, 0, 300):
            job.launch(GEMM, 100, after=job.stream_end.get(7, 0) + late * US)

    found = replay(steps(step))

    assert found.step_ns() == 400 * US
    assert found.strict_error == pytest.approx(3 / 7)
    assert not found.valid
    assert "another process on the GPU" in found.because


def test_a_good_replay_is_valid_and_gives_no_reason() -> None:
    found = replay(steps(there_and_back))

    assert found.valid
    assert found.because == ""


def test_kernels_without_their_launches_cannot_be_replayed() -> None:
    job = steps(lambda job: gemms(job, 3, gpu_us=100, host_us=1))

    assert "does not link" in replay(without(job, "cuda_runtime")).because


def test_a_capture_without_the_gpu_cannot_be_replayed() -> None:
    job = steps(lambda job: gemms(job, 3, gpu_us=100, host_us=1))

    assert "not recorded" in replay(capture_failed(job)).because


# -- without a GPU ---------------------------------------------------------------------------------------------------


def test_without_a_gpu_a_cause_is_scaled_and_nothing_else() -> None:
    def step(job: Trace) -> None:
        job.loader(us=300)
        job.cpu_op("aten::addmm", 400)
        with job.annotation("gloo:all_reduce", us=100):
            pass

    found = replay(steps(step, gpu=None))

    assert found.step_ns() == found.measured_ns == 800 * US
    assert found.strict_error == 0
    assert found.step_ns(StepChange(host={"data-wait": 0})) == 500 * US
    assert found.step_ns(StepChange(host={"operator-compute": 0.5})) == 600 * US
    assert found.step_ns(StepChange(communication=0.5)) == 750 * US
    assert found.step_ns(StepChange(overlap=True)) == 700 * US


# -- calibration -----------------------------------------------------------------------------------------------------


def test_the_host_speed_is_the_one_that_gives_the_step_without_the_profiler() -> None:
    host_bound = replay(steps(lambda job: gemms(job, 10, gpu_us=5, host_us=20)))
    device_bound = replay(steps(lambda job: gemms(job, 10, gpu_us=100, host_us=1)))

    def unprofiled(found: Replay, share: float) -> float:
        speeds = host_speeds_for(found, share * found.step_ns())
        return found.step_ns(StepChange(host_speeds=speeds)) / found.step_ns()

    assert unprofiled(host_bound, 0.6) == pytest.approx(0.6, abs=0.01)
    assert unprofiled(host_bound, 1.2) == 1.0
    assert host_speeds_for(device_bound, 0.9 * device_bound.step_ns()).of("dispatch") == 1.0


def test_the_host_is_sped_up_no_more_than_the_device_lets_it_count() -> None:
    found = replay(
        steps(lambda job: gemms(job, 10, gpu_us=20, host_us=20))
    )  # 230 us on the host; 200 and gaps on the device

    speeds = host_speeds_for(found, 100 * US)

    assert found.step_ns(StepChange(host_speeds=speeds)) == pytest.approx(1.02 * 210 * US, rel=0.01)


# -- mistakes --------------------------------------------------------------------------------------------------------


def test_a_misspelt_cause_is_refused() -> None:
    with pytest.raises(ValueError, match="data_wait"):
        StepChange(host={"data_wait": 0})


def test_a_negative_factor_is_refused() -> None:
    with pytest.raises(ValueError, match="below 0"):
        StepChange(launches=-1)


@pytest.mark.parametrize(
    "change", [{"kernels": Coded.ones(3)}, {"merge": np.ones(3, bool)}, {"no_wait": np.ones(3, bool)}]
)
def test_a_column_that_is_not_aligned_is_refused(change: dict[str, Any]) -> None:
    found = replay(steps(there_and_back))

    with pytest.raises(ValueError, match=f"{next(iter(change))} has 3 entries where"):
        found.step_ns(StepChange(**change))
