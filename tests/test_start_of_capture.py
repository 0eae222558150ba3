"""What of a capture lies before its first counted step: outside the step, and told where it is most of the capture."""

import pytest
from analysed import ADD, GEMM, MS, US, facts, timeline, without
from kineto import Trace
from kineto_host import START_NS

from diagnose.attribution.attribution import attribute


def unmarked(head_us: float) -> Trace:
    """A window without step marks whose host works `head_us` before it launches."""
    job = Trace()
    job.event("python_function", "load.py(3): read", head_us)
    for _ in range(4):
        job.op("aten::mm", [[512, 512], [512, 512]], GEMM, 100)
    return job


def test_a_window_without_marks_begins_with_the_first_gpu_activity() -> None:
    line = timeline(unmarked(5000))

    assert line.steps.source == "window"
    assert (line.windows[0] - START_NS).tolist() == [5012 * US, 5412 * US]
    assert (line.steps.uncounted - START_NS).tolist() == [[0, 5012 * US]]


def test_start_and_step_make_up_the_capture() -> None:
    line = timeline(unmarked(5000))

    accounted = sum(attribute(line).ns().values()) + (line.steps.uncounted[0, 1] - line.steps.uncounted[0, 0])

    assert accounted == line.gpu.end.max() - START_NS


def test_the_host_of_such_a_window_begins_with_the_operator_that_launches_first() -> None:
    line = timeline(unmarked(5000))

    assert line.steps.host[0, 0] - START_NS == 5000 * US


def test_without_links_the_threads_that_call_the_runtime_show_what_the_start_went_into() -> None:
    content = unmarked(5000).json()
    for event in content["traceEvents"]:
        event.get("args", {}).pop("correlation", None)

    assert facts(content)["start_of_capture_cause"].value == "Python"


def test_without_a_gpu_a_window_has_no_head() -> None:
    assert len(timeline(without(unmarked(5000), "kernel", "cuda_runtime", "cuda_driver")).steps.uncounted) == 0


def test_marked_steps_begin_with_their_mark() -> None:
    job = Trace()
    with job.step():
        job.host(1000)
        job.launch(ADD, 10)

    line = timeline(job)

    assert line.windows[0, 0] == START_NS
    assert len(line.steps.uncounted) == 0


@pytest.mark.parametrize(
    ("call", "cause"),
    [
        ("cuModuleLoadData", "compilation"),
        ("cudaMalloc", "allocation of device memory"),
    ],
)
def test_the_largest_cause_of_a_start_that_fills_the_capture_is_named(call: str, cause: str) -> None:
    job = Trace()
    for number in range(4):
        with job.step():
            if number == 0:
                job.launch(ADD, 1)
                job.event("cuda_driver", call, 50 * MS / US)
            job.op("aten::mm", [[512, 512], [512, 512]], GEMM, 1000)

    found = facts(job)

    assert float(found["start_of_capture_share"].value) == pytest.approx(51 / 54, abs=0.01)  # type: ignore[arg-type]
    assert found["start_of_capture_cause"].value == cause


def test_first_convolutions_that_try_every_kernel_are_told_as_a_search() -> None:
    job = Trace()
    for number in range(4):
        with job.step():
            with job.inside("aten::cudnn_convolution"):
                for _ in range(20 if number == 0 else 1):
                    job.launch(GEMM, 1000)
                    job.sync()
            job.launch(ADD, 100)

    assert facts(job)["start_of_capture_cause"].value == "the search for the fastest convolutions"


def test_where_most_is_counted_the_start_is_not_divided() -> None:
    job = Trace()
    for _ in range(4):
        with job.step():
            job.op("aten::mm", [[512, 512], [512, 512]], GEMM, 1000)

    assert float(facts(job)["start_of_capture_share"].value) == pytest.approx(0.25, abs=0.01)  # type: ignore[arg-type]
    assert not facts(job)["start_of_capture_cause"].known
