"""Who makes the host wait for the device, and the cure that is said for it."""

from pathlib import Path

import pytest
from analysed import FOREACH, facts
from kineto import COMPUTE, Trace
from remedies.single_gpu_jobs import Work, analysed, job, product

from diagnose.facts import Unknown

SCALED = "aten::_amp_foreach_non_finite_check_and_unscale_"


def updates(trace: Trace) -> None:
    with trace.optimizer():
        trace.op("aten::_foreach_add_", kernel=FOREACH, gpu_us=100, host_us=500)


def scaled(trace: Trace) -> None:
    trace.op(SCALED, kernel=FOREACH, gpu_us=10)
    trace.item()
    updates(trace)


def clipped(trace: Trace) -> None:
    """The norm of the gradients is read first, and takes the wait."""
    trace.op(SCALED, kernel=FOREACH, gpu_us=10)
    trace.item()
    trace.item()
    updates(trace)


def stepped(trace: Trace) -> None:
    """A trainer's range around the scaler, whose gradients were unscaled before it, to be clipped."""
    trace.op(SCALED, kernel=FOREACH, gpu_us=10)
    with trace.inside("diagnose.optimizer"):
        trace.item()
        updates(trace)


def copies_in_turn(trace: Trace) -> None:
    """A batch from pinned memory whose copy blocks: behind it the host waits for all that the device has to do."""
    with trace.inside("aten::copy_"):
        trace._memcpy("Memcpy HtoD (Pinned -> Device)", 1 << 20, 21, COMPUTE)
        trace.sync()


def synchronises(call: str) -> Work:
    return lambda trace: trace.sync(call, stream=None)


def launches_late(trace: Trace) -> None:
    trace.cpu_op("aten::view", 500)


def reads(trace: Trace) -> None:
    trace.item()


@pytest.mark.parametrize(
    ("work", "by", "call"),
    [
        (reads, "an operator", "cudaStreamSynchronize"),
        (copies_in_turn, "a copy to the device", "cudaStreamSynchronize"),
        (scaled, "GradScaler", "cudaStreamSynchronize"),
        (stepped, "GradScaler", "cudaStreamSynchronize"),
        (clipped, "an operator", "cudaStreamSynchronize"),
        (synchronises("cudaDeviceSynchronize"), "the loop", "cudaDeviceSynchronize"),
        (synchronises("cudaEventSynchronize"), "the loop", "cudaEventSynchronize"),
    ],
)
def test_the_longest_wait_is_that_of_whoever_makes_it(work: Work, by: str, call: str) -> None:
    found = facts(job(product(1000), work))

    assert (found["sync_by"].value, found["sync_call"].value) == (by, call)


def test_without_operators_it_is_not_told_who_waits() -> None:
    bare = job(product(1000), synchronises("cudaDeviceSynchronize"))
    bare._events[:] = [event for event in bare._events if event.get("cat") != "cpu_op"]
    found = facts(bare)

    assert found["sync_call"].value == "cudaDeviceSynchronize"
    assert isinstance(found["sync_by"].value, Unknown)
    assert isinstance(facts(job(product(1000)))["sync_call"].value, Unknown)


@pytest.mark.parametrize(
    ("work", "told", "not_told"),
    [
        (reads, "no .item(), .cpu()", "torch.cuda.synchronize()"),
        (scaled, "fused=True", ".item()"),
        (copies_in_turn, "non_blocking=True", ".item()"),
        (synchronises("cudaDeviceSynchronize"), "set_sync_debug_mode does not name these lines", ".item()"),
    ],
)
def test_the_cure_is_for_who_waits(tmp_path: Path, work: Work, told: str, not_told: str) -> None:
    found = analysed(tmp_path, job(product(1000), work, launches_late))
    do = next(each for each in found.findings if each.rule == "sync-every-step").do.replace("\n", " ")

    assert told in do
    assert not_told not in do
