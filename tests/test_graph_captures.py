"""What is launched while a GPU graph is captured is recorded and does not run."""

import pytest
from analysed import ADD, GEMM, US, causes, facts, measured, timeline
from kineto import Trace
from kineto_host import START_NS

PRODUCT = [[1024, 1024], [1024, 1024]]
CALLS = ["cudaStream{}Capture", "hipStream{}Capture", "cuStream{}Capture_v2", "cudaStream{}Capture_ptsz"]


def capturing(call: str = "cudaStream{}Capture", tail: bool = True) -> Trace:
    """A step with a product that runs, and a capture of ten, the last of which autograd's thread launches."""
    job = Trace()
    with job.step():
        job.op("aten::mm", PRODUCT, GEMM, 100)
        with job.graph_capture(call):
            for _ in range(9):
                job.op("aten::mm", PRODUCT, GEMM, 100, host_us=500)
            with job.backward():
                job.op("aten::mm", PRODUCT, GEMM, 100, host_us=500)
        if tail:
            job.op("aten::add", PRODUCT, ADD, 50)
    return job


@pytest.mark.parametrize("call", CALLS)
def test_what_is_launched_in_a_capture_is_not_lost(call: str) -> None:
    line = timeline(capturing(call))

    assert (line.launches, line.lost_launches) == (2, 0)


def test_the_same_launches_without_a_capture_are_lost() -> None:
    line = timeline(capturing("aten::{}"))

    assert (line.launches, line.lost_launches) == (12, 10)


def test_the_time_of_a_capture_is_its_own_cause() -> None:
    spent = causes(capturing())

    assert spent["graph-capture"] == pytest.approx(10 * 508 * US, rel=0.03)
    assert sum(spent.values()) == timeline(capturing()).windows[0, 1] - timeline(capturing()).windows[0, 0]


def test_a_step_ends_no_sooner_than_its_capture() -> None:
    line = timeline(capturing(tail=False))

    assert line.windows[0, 1] - START_NS == pytest.approx(10 * 508 * US, rel=0.05)


def test_operators_of_a_capture_compute_nothing() -> None:
    flops = measured(capturing()).flops

    assert flops is not None
    assert flops.per_step == 2 * 1024**3


def test_without_a_product_that_runs_there_is_no_mfu() -> None:
    job = Trace()
    with job.step():
        job.op("aten::add", PRODUCT, ADD, 50)
        with job.graph_capture():
            job.op("aten::mm", PRODUCT, GEMM, 100, host_us=500)

    mfu = facts(job)["mfu_share"].value

    assert "capture a GPU graph" in getattr(mfu, "because", "")


def test_nested_captures_of_a_thread_are_one() -> None:
    job = Trace()
    with job.step():
        with job.graph_capture():
            with job.graph_capture():
                job.host(100)
            job.host(100)
        job.launch(ADD, 10)

    (begin, end) = timeline(job).captures.spans[0]

    assert len(timeline(job).captures.spans) == 1
    assert end - begin == 208 * US


@pytest.mark.parametrize(("call", "left"), [("Begin", "End"), ("End", "Begin")])
def test_a_capture_that_the_window_cuts_reaches_to_its_edge(call: str, left: str) -> None:
    job = capturing()
    kept = job.json()
    kept["traceEvents"] = [e for e in kept["traceEvents"] if e.get("name") != f"cudaStream{left}Capture"]

    line = timeline(kept)
    edge = line.trace.ts.min() if call == "End" else (line.trace.ts + line.trace.dur).max()

    assert line.captures.spans[0, 0 if call == "End" else 1] == edge
    assert line.lost_launches == 0
