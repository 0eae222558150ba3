"""One rank's timeline: which launch a GPU activity belongs to, and where the steps begin and end."""

import numpy as np
import pytest
from analysed import ADD, FOREACH, GEMM, MS, US, capture_failed, content, edited, timeline, without
from kineto import Trace
from kineto_host import START_NS

from diagnose.timeline import thread_turns


def three_steps(**times: float) -> Trace:
    job = Trace()
    for _ in range(3):
        with job.step():
            job.launch(GEMM, times.get("gpu_us", 50))
            job.host(times.get("host_us", 100))
    return job


def test_an_activity_is_linked_to_the_call_of_its_correlation() -> None:
    job = Trace()
    with job.step():
        job.launch(GEMM, 10)
        job.host(40)
        job.launch(ADD, 10)

    gpu = timeline(job).gpu

    assert (gpu.launch_start - START_NS).tolist() == [0, 43 * US]
    assert (gpu.launch_end - gpu.launch_start).tolist() == [3 * US, 3 * US]


def test_one_launch_may_own_many_kernels() -> None:
    job = Trace()
    with job.step():
        graph = job.launch(GEMM, 10)["args"]["correlation"]
        job.launch(ADD, 10)

    gpu = timeline(edited(job, "kernel", 1, correlation=graph)).gpu

    assert (gpu.launch_start - START_NS).tolist() == [0, 0]
    assert timeline(edited(job, "kernel", 1, correlation=graph)).lost_launches == 1


@pytest.mark.parametrize("correlation", [0, None, 999_999])
def test_an_unlinked_activity_inherits_the_launch_before_it_on_its_stream(correlation: int | None) -> None:
    job = Trace()
    with job.step():
        job.launch(GEMM, 10, stream=7)
        job.launch(GEMM, 10, stream=8)
        job.launch(ADD, 10, stream=7)

    gpu = timeline(edited(job, "kernel", 2, correlation=correlation)).gpu

    assert gpu.launch.tolist()[2] == -1
    assert (gpu.launch_start - START_NS).tolist() == [0, 3 * US, 0]


def test_what_runs_before_the_first_launch_belongs_to_the_step_before() -> None:
    job = Trace()
    job.launch(ADD, 200)
    for _ in range(2):
        with job.step():
            job.launch(GEMM, 100)
            job.sync()
    head = edited(job, "kernel", 0, correlation=0)

    steps = timeline(head).steps

    assert steps.device[0, 0] - START_NS == 207 * US, "the first step begins where the head ends"
    assert (steps.device[0, 1] - steps.device[0, 0]) == 100 * US


def test_device_steps_end_with_the_last_activity_that_the_host_step_launched() -> None:
    steps = timeline(three_steps(gpu_us=1000, host_us=7)).steps

    host, device = steps.host - START_NS, steps.device - START_NS

    assert host.tolist() == [[10 * US, 20 * US], [20 * US, 30 * US]]
    assert device.tolist() == [[1007 * US, 2007 * US], [2007 * US, 3007 * US]]


def test_a_step_that_launches_nothing_is_dropped() -> None:
    job = Trace()
    for number in range(3):
        with job.step():
            if number < 2:
                job.launch(GEMM, 50)
            job.sync()

    steps = timeline(job).steps

    assert (steps.count, steps.dropped_ns) == (2, ())


@pytest.mark.parametrize(("recorded", "counted"), [(1, 1), (2, 2), (3, 2), (5, 4)])
def test_the_first_of_three_or_more_steps_is_not_counted(recorded: int, counted: int) -> None:
    job = Trace()
    for number in range(recorded):
        with job.step():
            job.launch(GEMM, 500 if number == 0 else 50)
            job.sync()

    steps = timeline(job).steps

    assert steps.count == counted
    assert steps.dropped_ns == ((507 * US,) if recorded >= 3 else ())


def marked_every_way(*, profiler: bool, probe: bool, optimizer: bool, kernels: bool) -> Trace:
    job = Trace()
    for _ in range(4):
        with job.step() if profiler else job.annotation("diagnose.step" if probe else "train"):
            job.launch(GEMM, 50)
            with job.optimizer() if optimizer else job.annotation("update"):
                job.launch(FOREACH if kernels else ADD, 20)
            job.sync()
    return job


@pytest.mark.parametrize(
    ("present", "source"),
    [
        ((True, False, True, True), "ProfilerStep"),
        ((False, True, True, True), "diagnose.step"),
        ((False, False, True, True), "Optimizer.step"),
        ((False, False, False, True), "optimizer kernels"),
        ((False, False, False, False), "window"),
    ],
)
def test_steps_come_from_the_best_mark_there_is(present: tuple[bool, ...], source: str) -> None:
    names = ("profiler", "probe", "optimizer", "kernels")

    steps = timeline(marked_every_way(**dict(zip(names, present, strict=True)))).steps

    assert steps.source == source
    assert (steps.count > 1) == (source != "window")


def test_with_two_optimizers_a_step_ends_with_the_one_that_steps_least() -> None:
    job = Trace()
    for number in range(8):
        job.launch(GEMM, 50)
        with job.optimizer("AdamW"):
            job.launch(FOREACH, 10)
        if number % 2:
            with job.optimizer("SGD"):
                job.launch(FOREACH, 10)
        job.sync()

    steps = timeline(job).steps

    assert (steps.source, steps.count) == ("Optimizer.step", 2), "four SGD steps bound three steps, one dropped"


def test_the_whole_window_is_one_step() -> None:
    job = Trace()
    job.op("aten::mm", kernel=GEMM, gpu_us=100)

    line = timeline(job)

    assert (line.steps.source, line.steps.count) == ("window", 1)
    assert line.windows[0, 1] - START_NS >= 112 * US


def test_the_busiest_of_several_devices_is_the_one_in_use() -> None:
    job = Trace()
    with job.step():
        job.launch(GEMM, 10)
        job.launch(GEMM, 300)
    found = content(job)
    [e for e in found["traceEvents"] if e.get("cat") == "kernel"][1]["pid"] = 1

    gpu = timeline(found).gpu

    assert (gpu.end - gpu.start).tolist() == [300 * US]


def test_launches_without_activity_are_counted_as_lost() -> None:
    found = content(three_steps())
    kernels = [e for e in found["traceEvents"] if e.get("cat") == "kernel"]
    found["traceEvents"].remove(kernels[1])

    line = timeline(found)

    assert (line.launches, line.lost_launches) == (3, 1)


def test_copies_and_synchronisations_are_no_lost_launches() -> None:
    job = three_steps()
    job.copy(1_000_000)
    job.item()

    assert timeline(job).lost_launches == 0


def test_without_a_gpu_the_host_steps_count() -> None:
    job = Trace(gpu=None)
    for _ in range(2):
        with job.step():
            job.cpu_op("aten::mm", 1000)

    line = timeline(job)

    assert (line.has_gpu, line.capture_failed, line.device_name) == (False, False, "CPU")
    assert (line.windows - START_NS).tolist() == [[0, MS], [MS, 2 * MS]]


def test_launches_without_any_activity_mean_that_the_capture_failed() -> None:
    line = timeline(capture_failed(three_steps()))

    assert (line.has_gpu, line.capture_failed, line.lost_launches) == (False, True, 3)


def test_activity_without_launches_is_still_accounted() -> None:
    line = timeline(without(three_steps(), "cuda_runtime", "cuda_driver"))

    assert (line.has_gpu, line.capture_failed) == (True, False)
    assert line.windows.size
    assert (line.windows[:, 1] > line.windows[:, 0]).all()


@pytest.mark.parametrize("first", [-2, -1, 0, 7])
def test_the_first_event_is_a_turn_of_its_thread_whatever_its_number(first: int) -> None:
    pid, tid = np.array([first, first, 3]), np.array([first, first, 3])

    assert thread_turns(pid, tid).tolist() == [0, 2]
    assert thread_turns(pid[:0], tid[:0]).tolist() == []
