"""The dominant cause of a step names the first change, whatever else is surer to buy a little."""

from pathlib import Path

import pytest
from analysed import GEMM
from kineto import Trace, collective
from whatif.predicted import saved, steps

from diagnose.analysis import analyze

SMALL = [[64, 64], [64, 64]]


def test_the_launches_of_a_step_that_waits_for_them_come_before_a_smaller_cause(tmp_path: Path) -> None:
    """40 launches of the model, and Python for a sixth of the step."""

    def tiny_kernels(job: Trace) -> None:
        for _ in range(40):
            job.op("aten::mul", SMALL, "elementwise_kernel", 3, host_us=20)
        job.host(250)

    found = analyze(saved(tmp_path, steps(tiny_kernels)))

    assert {"launch-bound", "python-host"} <= {f.rule for f in found.findings}
    assert found.next.rule == "launch-bound"
    low, _ = found.next.predicted_speedup or (1.0, None)
    assert low > 1.1


def of_eight() -> Trace:
    """Rank 0 of 8: 7 ms of 10 in a collective, and 1 ms of loading."""
    job = Trace(world=8)
    for _ in range(5):
        with job.step():
            job.op("aten::mm", [[512, 512], [512, 512]], GEMM, 2000)
            collective([job], "allreduce", 1 << 20, 7000)
            job.sync("cudaDeviceSynchronize", stream=None)
            job.loader(ms=1)
    return job


def test_communication_that_may_be_waiting_comes_before_what_is_sure_and_small(tmp_path: Path) -> None:
    found = analyze(saved(tmp_path, of_eight()))
    gains = {f.rule: f.predicted_speedup for f in found.findings if f.predicted_speedup}

    assert gains["exposed-communication"][0] == 1.0, "one rank of several: nobody knows"
    assert max(low for low, _ in gains.values()) > 1.0
    assert found.next.rule == "exposed-communication"
    assert found.next.because == "it is critical, and may gain more than a change with a surer gain"
    assert "Capture all ranks first" in found.next.do
    assert found.plan[0].rule == "exposed-communication"


def test_of_two_critical_causes_the_one_that_promises_more_comes_first(tmp_path: Path) -> None:
    """Python for half of a host step, and a wait for data that workers are sure to hide; the product follows cold."""

    def loads_and_computes(job: Trace) -> None:
        job.loader(ms=57)
        job.event("python_function", "train.py(7): work", 58_000)
        job.cpu_op("aten::mm", 5_000)

    found = analyze(saved(tmp_path, steps(loads_and_computes, gpu=None)))
    gains = {f.rule: f.predicted_speedup for f in found.findings if f.predicted_speedup}

    assert found.verdict.class_ == "host-bound"
    assert gains["data-wait"][0] > gains["python-host"][0] > 1
    assert found.next.rule == "data-wait"
    assert [f.booked_share for f in found.findings] == pytest.approx([57 / 120, 58 / 120], rel=0.02)
