"""The part of a capture without step marks that is replayed: the step that the report shows, and nothing beside it."""

from pathlib import Path

import pytest
from cut_captures import DATA, answer_for, delayed, diagnosed, is_gpu, only, read
from kineto import Trace

from diagnose.diagnosis import Diagnosis

GEMM = "ampere_sgemm_128x64_tn"


def gains(answer: Diagnosis) -> dict[str, object]:
    """The predicted gains."""
    return {finding.rule: finding.predicted_speedup for finding in answer.findings if finding.predicted_speedup}


def forward(head_us: float, tail_us: float) -> Trace:
    """A forward pass in fp32 whose first launch starts CUDA, and a profiler that takes long to end."""
    job = Trace()
    for number in range(40):
        job.op("aten::mm", [[4096, 4096]] * 2, GEMM, 900, dtype="float", host_us=head_us if not number else 5)
    job.sync()
    job.event("cuda_runtime", "cudaDeviceSynchronize", tail_us)
    return job


def test_the_head_of_a_capture_changes_no_gain() -> None:
    with_head, without = answer_for("cold-head-fp32"), answer_for("cold-head-removed")

    assert with_head.steps.uncounted_ns - without.steps.uncounted_ns == pytest.approx(415e6, rel=0.01)
    assert gains(with_head) == gains(without)
    assert with_head.next.predicted_speedup == without.next.predicted_speedup is not None
    assert with_head.replay.measured_ns == pytest.approx(with_head.steps.device_time_ns, rel=0.001)


@pytest.mark.parametrize(("head_us", "tail_us"), [(400_000, 5), (5, 700_000), (400_000, 700_000)])
def test_neither_does_a_head_or_a_tail_of_any_length(head_us: float, tail_us: float, tmp_path: Path) -> None:
    usual = diagnosed(forward(5, 5).json(), tmp_path)
    answer = diagnosed(forward(head_us, tail_us).json(), tmp_path)

    assert answer.steps.device_time_ns == usual.steps.device_time_ns
    assert answer.replay.valid
    assert usual.plan
    assert gains(answer) == gains(usual)


def test_a_pause_before_the_first_launch_of_a_real_capture_changes_no_gain(tmp_path: Path) -> None:
    trace = only(read(DATA / "torchscript-fusion-second-call.json.gz"), lambda event: event.get("cat") != "Trace")
    first = min(filter(is_gpu, trace["traceEvents"]), key=lambda event: event["ts"])
    launch = next(
        event
        for event in trace["traceEvents"]
        if event.get("cat") == "cuda_runtime" and event["args"]["correlation"] == first["args"]["correlation"]
    )

    usual = gains(diagnosed(trace, tmp_path))
    answer = gains(diagnosed(delayed(trace, launch["ts"] + 0.1, 400_000.0), tmp_path))

    assert answer.keys() == usual.keys()
    assert all(answer[rule] == pytest.approx(usual[rule], rel=0.001) for rule in usual)
