"""The replay of a step whose streams wait for each other, and of its collectives."""

import numpy as np
from analysed import ADD, COMM, timeline
from kineto import Trace
from replay.replayed import US, gemms, halved, of_kind, replay, replay_of, steps, there_and_back

from diagnose.arrays import Coded
from diagnose.predict.replay import StepChange


def test_streams_that_wait_for_each_other_take_the_sum() -> None:
    line = timeline(steps(there_and_back))
    found = replay_of(line)

    assert found.step_ns() == found.measured_ns == 160 * US
    assert found.step_ns(halved(line, "elementwise")) == 135 * US


def test_streams_that_do_not_take_the_longer_one() -> None:
    def step(job: Trace) -> None:
        gemms(job, 1, gpu_us=100, host_us=1)
        job.launch(ADD, 150, stream=8)

    line = timeline(steps(step))

    assert replay_of(line).step_ns() == 150 * US
    assert replay_of(line).step_ns(halved(line, "elementwise")) == 100 * US


def reduces(job: Trace) -> None:
    """100 us, then a collective of 80 us that the next 100 us wait for."""
    gemms(job, 1, gpu_us=100, host_us=1)
    job.collective("allreduce", 1 << 20, 80, wait=True)
    gemms(job, 1, gpu_us=100, host_us=1)


def test_collectives_that_overlap_hide_behind_the_kernels() -> None:
    found = replay(steps(reduces, world=2))

    assert found.step_ns() == found.measured_ns == 280 * US
    assert found.step_ns(StepChange(communication=0.5)) == 240 * US
    assert found.step_ns(StepChange(overlap=True)) == 200 * US
    assert found.step_ns(StepChange(overlap=True, communication=4.0)) == 320 * US, "more than there is to hide behind"


def test_collectives_that_keep_their_end_keep_the_step() -> None:
    line = timeline(steps(reduces, world=2))
    found = replay_of(line)
    faster = StepChange(kernels=Coded.of(np.where(of_kind(line, "gemm"), 0.5, 1.0)), communication_keeps="end")

    assert found.step_ns(faster) == found.step_ns()
    assert replay(steps(lambda job: gemms(job, 1, 100, 1))).step_ns(StepChange(communication_keeps="end")) == 100 * US


def test_a_collective_on_the_stream_of_the_kernels_overlaps_too() -> None:
    def step(job: Trace) -> None:
        gemms(job, 1, gpu_us=100, host_us=1)
        job.launch(COMM, 80)

    found = replay(steps(step))

    assert (found.step_ns(), found.step_ns(StepChange(overlap=True))) == (180 * US, 100 * US)
