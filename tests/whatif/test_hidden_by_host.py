"""What faster kernels buy beside a host as slow as the profiler makes it."""

import pytest
from analysed import GEMM
from kineto import Trace
from whatif.predicted import predictor, rule, steps


def host_bound(job: Trace) -> None:
    for _ in range(100):
        job.op("aten::add", kernel=GEMM, gpu_us=50, host_us=97)


def test_kernels_behind_a_profiled_host_are_not_said_to_buy_nothing() -> None:
    """A host that takes 10.5 ms for 5 ms of kernels, as profiled, hides what half the kernel time buys."""
    half, unprofiled = "kernels = { matrix = [0.5, 0.5] }", {"steps": {"control_before_ns": [10_500_000] * 3}}
    profiled, calibrated = predictor(steps(host_bound)), predictor(steps(host_bound), record=unprofiled)

    assert profiled.predict(rule(half)) is None
    assert "would hide it at its profiled speed" in profiled.assumes(rule(half))
    assert calibrated.predict(rule(half)) == pytest.approx((1, 1), abs=0.02)
    assert "hide it" not in calibrated.assumes(rule(half))


def test_transfers_behind_a_profiled_host_are_not_said_to_buy_nothing() -> None:
    """A host that takes 10.5 ms for 2 ms of a transfer and 5 ms of kernels."""

    def sends(job: Trace) -> None:
        job.collective("allreduce", 1 << 24, 2000, wait=True)
        host_bound(job)

    half, unprofiled = "communication = [0.5, 0.5]", {"steps": {"control_before_ns": [10_500_000] * 3}}
    profiled, calibrated = predictor(steps(sends)), predictor(steps(sends), record=unprofiled)

    assert profiled.predict(rule(half)) is None
    assert "would hide it at its profiled speed" in profiled.withheld(rule(half))
    assert calibrated.predict(rule(half)) == pytest.approx((1, 1), abs=0.02)
    assert calibrated.withheld(rule(half)) == ""
