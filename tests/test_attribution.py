"""Where the nanoseconds of a step go: each cause of idling on a trace of its own, and overlap."""

from collections.abc import Callable

import pytest
from analysed import ADD, COMM, GEMM, US, causes
from kineto import COMMUNICATION, COPY, Trace

Action = Callable[[Trace], object]


def between_two_kernels(action: Action, gpu_us: float = 100) -> Trace:
    """A kernel that ends 107 us into the step, the action from 3 us on, and another kernel."""
    job = Trace()
    with job.step():
        job.launch(GEMM, gpu_us)
        action(job)
        job.launch(GEMM, gpu_us)
    return job


def in_optimizer(job: Trace) -> None:
    with job.optimizer():
        job.host(500)


def logs(job: Trace) -> None:
    with job.annotation("diagnose.log", us=500):
        pass


@pytest.mark.parametrize(
    ("cause", "action"),
    [
        ("data-wait", lambda job: job.loader(us=500)),
        ("data-wait", lambda job: job.event("user_annotation", "diagnose.data_wait", 500)),
        ("allocation", lambda job: job.malloc(500)),
        ("allocation", lambda job: job.malloc(500, "cudaFree")),
        ("allocation", lambda job: job.malloc(500, "hipMalloc")),
        ("compile", lambda job: job.event("cuda_driver", "cuModuleLoadData", 500)),
        ("compile", lambda job: job.event("cpu_op", "torch/_inductor/compile_fx.py(99): compile_fx_inner", 500)),
        ("gc", lambda job: job.gc(500)),
        ("logging", logs),
        ("host-to-device", lambda job: job.event("cuda_runtime", "cudaMemcpyAsync", 500)),
        ("optimizer-host", in_optimizer),
        ("python", lambda job: job.event("python_function", "train.py(12): forward", 500)),
        ("python", lambda job: job.host(500)),
    ],
)
def test_an_idle_gap_gets_the_cause_that_the_host_shows(cause: str, action: Action) -> None:
    found = causes(between_two_kernels(action))

    launches = {"dispatch": 6 * US, "launch-latency": 8 * US, "gemm": 200 * US}
    assert found == {cause: (503 - 107) * US, **launches}


def test_operators_and_short_runtime_calls_are_dispatch() -> None:
    found = causes(between_two_kernels(lambda job: job.cpu_op("aten::add", 500)))

    assert found == {"dispatch": (6 + 396) * US, "launch-latency": 8 * US, "gemm": 200 * US}


def test_compiled_code_that_runs_is_not_compilation() -> None:
    found = causes(between_two_kernels(lambda job: job.cpu_op("## Call CompiledFxGraph abc ##", 500)))

    assert "compile" not in found


def test_a_launch_call_of_more_than_half_a_millisecond_loads_a_module() -> None:
    found = causes(between_two_kernels(lambda job: job.event("cuda_runtime", "cudaLaunchKernel", 600)))

    assert found["compile"] == (603 - 107) * US


def test_a_hole_of_more_than_a_millisecond_is_untraced() -> None:
    found = causes(between_two_kernels(lambda job: job.host(2000)))

    assert found["untraced"] == (2003 - 107) * US
    assert "python" not in found


def waits_then_works(job: Trace) -> None:
    job.sync()
    job.host(500)


def test_a_wait_for_the_device_costs_no_more_than_the_host_was_blocked() -> None:
    found = causes(between_two_kernels(waits_then_works))

    assert found["sync"] == 100 * US, "blocked from 7 to 107 us while the device worked"
    assert found["python"] == (109 + 500 - 207) * US


def test_each_wait_costs_what_the_host_was_blocked_in_it() -> None:
    def waits_twice(job: Trace) -> None:
        waits_then_works(job)
        job.launch(GEMM, 50)
        waits_then_works(job)

    found = causes(between_two_kernels(waits_twice))

    assert found["sync"] == (100 + 50) * US


def test_a_wait_of_less_than_20_us_costs_only_its_own_time() -> None:
    found = causes(between_two_kernels(waits_then_works, gpu_us=10))

    assert found["sync"] == 2 * US, "the call returns 2 us after the kernel ends"


def late(job: Trace, us: float) -> None:
    """A kernel that starts `us` after its launch call returned."""
    job.launch(GEMM, 100, after=job.now + 3 * US + round(us * US))


@pytest.mark.parametrize(("us", "latency", "queued"), [(4, 4, 0), (20, 20, 0), (50, 20, 30)])
def test_after_the_launch_20_us_are_latency_and_more_is_queued(us: float, latency: int, queued: int) -> None:
    job = Trace()
    with job.step():
        late(job, us)

    found = causes(job)

    assert found["launch-latency"] == latency * US
    assert found.get("queued-on-idle-device", 0) == queued * US


@pytest.mark.parametrize(("us", "gap", "queued"), [(5, 5, 0), (20, 20, 0), (50, 20, 30)])
def test_between_queued_kernels_20_us_are_a_gap_and_more_is_queued(us: int, gap: int, queued: int) -> None:
    job = Trace()
    with job.step():
        job.launch(GEMM, 100)
        job.launch(GEMM, 100, after=job.stream_end[7] + us * US)

    found = causes(job)

    assert found["kernel-gap"] == gap * US
    assert found.get("queued-on-idle-device", 0) == queued * US


@pytest.mark.parametrize(
    ("cause", "action"),
    [
        ("python", lambda job: job.malloc(500)),
        ("python", lambda job: job.cpu_op("aten::index", 500)),
        ("data-wait", lambda job: job.loader(us=500)),
        ("gc", lambda job: job.gc(500)),
    ],
)
def test_a_thread_that_launches_nothing_explains_only_data_waits_and_pauses(cause: str, action: Action) -> None:
    def elsewhere(job: Trace) -> None:
        with job.thread(77):
            action(job)

    assert causes(between_two_kernels(elsewhere))[cause] == 396 * US


def test_a_data_wait_outranks_what_the_loader_does_inside_it() -> None:
    def load(job: Trace) -> None:
        with job.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
            job.cpu_op("aten::stack", 400)
            job.gc(100)

    assert causes(between_two_kernels(load))["data-wait"] == 396 * US


def test_kernels_on_two_streams_are_counted_once() -> None:
    job = Trace()
    with job.step():
        job.launch(GEMM, 100, stream=7)  # 7 to 107 us
        job.launch(ADD, 200, stream=8)  # 10 to 210 us

    found = causes(job)

    assert (found["gemm"], found["elementwise"]) == (100 * US, 103 * US)
    assert sum(found.values()) == 210 * US


def test_only_communication_that_no_kernel_hides_is_exposed() -> None:
    job = Trace()
    with job.step():
        job.launch(GEMM, 100)  # 7 to 107 us
        job.launch(COMM, 150, stream=COMMUNICATION)  # 10 to 160 us

    assert causes(job)["exposed-communication"] == 53 * US


@pytest.mark.parametrize(("stream", "alone"), [(7, 100), (COPY, 14)])
def test_only_copies_that_nothing_hides_cost_time(stream: int, alone: int) -> None:
    job = Trace()
    with job.step():
        job.launch(GEMM, 100)  # 7 to 107 us
        job.copy(4_950_000, pinned=True, stream=stream)  # 100 us: after the kernel, or from 14 us on

    assert causes(job).get("copy-HtoD", 0) == (alone - 7 if stream == COPY else alone) * US


def test_without_a_gpu_the_optimizer_is_its_operators_and_the_python_around_them() -> None:
    job = Trace(gpu=None)
    with job.step():
        job.cpu_op("aten::mul", 30)
        with job.optimizer():
            job.cpu_op("aten::mul", 200)
            job.host(50)
            job.cpu_op("aten::mm", 100)
        job.host(20)

    assert causes(job) == {
        "operator-compute": 100 * US,
        "operator-elementwise": 30 * US,
        "operator-optimizer": 200 * US,
        "optimizer-host": 50 * US,
        "python": 20 * US,
    }


def test_without_a_gpu_what_torch_does_around_operators_is_dispatch() -> None:
    job = Trace(gpu=None)
    with job.step():
        with job.inside("autograd::engine::evaluate_function: MmBackward0"):
            job.host(40)
            job.cpu_op("aten::mm", 100)
        with job.inside("torch.distributed.ddp.reducer::search_unused_parameters"):
            job.host(300)
        job.host(25)

    assert causes(job) == {"operator-compute": 100 * US, "dispatch": 340 * US, "python": 25 * US}


@pytest.mark.parametrize("node", ["Mine", "autograd::engine::evaluate_function: MineBackward", "CompiledFunction"])
def test_without_a_gpu_the_functions_of_the_user_are_python(node: str) -> None:
    job = Trace(gpu=None)
    with job.step(), job.inside(node):
        job.host(40)
        job.cpu_op("aten::mm", 100)

    assert causes(job) == {"operator-compute": 100 * US, "python": 40 * US}


@pytest.mark.parametrize(("shown", "cause"), [(True, "python"), (False, "untraced-step")])
def test_without_a_gpu_a_hook_that_autograd_calls_is_python_where_the_trace_shows_it(shown: bool, cause: str) -> None:
    job = Trace(gpu=None)
    with job.step(), job.inside("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"):
        job.host(40)
        job.cpu_op("aten::add", 100)
        job.event("python_function", "train.py(7): hook", 5000) if shown else job.host(5000)

    assert causes(job) == {"operator-elementwise": 100 * US, "dispatch": 40 * US, cause: 5000 * US}


def test_a_step_without_a_gpu_is_divided_by_what_the_process_did() -> None:
    job = Trace(gpu=None)
    with job.step():
        job.loader(us=300)
        with job.inside("aten::linear"):
            job.cpu_op("aten::addmm", 400)
        job.cpu_op("aten::add", 200)
        job.gc(50)
        with job.annotation("gloo:all_reduce", us=100):
            pass
        job.host(25)

    assert causes(job) == {
        "data-wait": 300 * US,
        "gc": 50 * US,
        "exposed-communication": 100 * US,
        "operator-compute": 400 * US,
        "operator-elementwise": 200 * US,
        "python": 25 * US,
    }
