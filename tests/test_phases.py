"""The phases of a step that learns from samples the model writes: shares that add up, on the clock of the step."""

import pytest
from analysed import GEMM, facts
from kineto import Trace

from diagnose.facts import Unknown

SHARES = ("generation_share", "rewards_share", "log_probabilities_share", "update_share")


def job(gpu: str | None) -> Trace:
    """Steps of 10 ms: generation 5, rewards on the host 1, log-probabilities 1, the update 2, a log 1."""
    trace = Trace(gpu=gpu)
    for _ in range(4):
        with trace.step():
            with trace.annotation("diagnose.generation"):
                works(trace, 5)
            with trace.annotation("diagnose.rewards"):
                trace.host(1000)
            with trace.annotation("diagnose.log_probabilities"):
                works(trace, 1)
            with trace.annotation("diagnose.forward"), trace.annotation("diagnose.log_probabilities"):
                works(trace, 2)
            with trace.annotation("diagnose.log"), trace.annotation("diagnose.generation"):
                works(trace, 1)
    return trace


def works(trace: Trace, ms: int) -> None:
    """Milliseconds of work: launched at once and waited for, or done by the host."""
    if trace.gpu:
        trace.op("aten::mm", [[4096, 4096]] * 2, GEMM, 1000 * ms)
        trace.sync()
    else:
        trace.host(1000 * ms)


@pytest.mark.parametrize("gpu", ["NVIDIA H100 80GB HBM3", None])
def test_each_phase_has_its_share_and_what_an_outer_phase_holds_is_its_own(gpu: str | None) -> None:
    found = facts(job(gpu))

    assert [found[name].value for name in SHARES] == pytest.approx([0.5, 0.1, 0.1, 0.2], abs=0.01)
    assert found["marks_generation"].value is True
    assert found["generation_share"].of == ("the step" if gpu else "the host step")


def launched_ahead() -> Trace:
    """Steps whose generation is launched in a moment, and runs for 4 ms; the update behind it for 6."""
    trace = Trace()
    for _ in range(4):
        with trace.step():
            with trace.annotation("diagnose.generation"):
                trace.op("aten::mm", [[4096, 4096]] * 2, GEMM, 4000)
            with trace.annotation("diagnose.forward"):
                trace.op("aten::mm", [[4096, 4096]] * 2, GEMM, 6000)
    return trace


def test_a_phase_lasts_on_the_device_until_what_it_launched_is_done() -> None:
    found = facts(launched_ahead())

    assert found["generation_share"].value == pytest.approx(0.4, abs=0.01)
    assert found["update_share"].value == pytest.approx(0.6, abs=0.01)


def test_a_job_that_generates_nothing_has_no_phases() -> None:
    trace = Trace()
    for _ in range(4):
        with trace.step(), trace.annotation("diagnose.forward"):
            works(trace, 1)
    found = facts(trace)

    assert found["marks_generation"].value is False
    assert all(isinstance(found[name].value, Unknown) for name in SHARES)
