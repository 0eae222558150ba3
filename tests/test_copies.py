"""What is copied to the device: batches of a step, or what is kept on the host."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from analysed import GEMM, facts
from kineto import Trace
from remedies.single_gpu_jobs import Work, analysed, job, product

from diagnose.facts import Unknown, Value

MB = 1_000_000


def amid(trace: Trace) -> Value:
    return facts(trace)["copied_amid_passes_share"].value


def batch(trace: Trace) -> None:
    trace.copy(10 * MB, pinned=True)


def weights_forward(trace: Trace) -> None:
    for _ in range(4):
        trace.op("aten::mm", [[4096, 4096]] * 2, GEMM, 100)
        trace.copy(20 * MB, pinned=True)


def weights_backward(trace: Trace) -> None:
    with trace.backward():
        trace.copy(30 * MB, pinned=True)
        trace.op("aten::mm", [[4096, 4096]] * 2, GEMM, 100)


def weights_updated(trace: Trace) -> None:
    with trace.optimizer():
        trace.copy(30 * MB, pinned=True)


def passes(trace: Trace) -> None:
    product(100)(trace)
    with trace.backward():
        product(200)(trace)


def test_a_batch_is_copied_before_the_products_of_its_pass() -> None:
    assert amid(job(batch, passes)) == 0
    assert amid(job(batch, passes, batch, passes)) == 0  # micro-batches


@pytest.mark.parametrize(
    ("offloaded", "share"), [(weights_forward, 80 / 90), (weights_backward, 30 / 40), (weights_updated, 30 / 40)]
)
def test_what_the_passes_copy_is_no_batch(offloaded: Work, share: float) -> None:
    assert amid(job(batch, offloaded, passes)) == pytest.approx(share)


def test_without_operators_steps_or_copies_it_is_not_told() -> None:
    unmarked = Trace()
    batch(unmarked), weights_forward(unmarked)
    bare = job(batch, passes)
    bare._events[:] = [event for event in bare._events if event.get("cat") != "cpu_op"]

    assert all(isinstance(amid(trace), Unknown) for trace in (job(passes), unmarked, bare))


@pytest.mark.parametrize(
    ("work", "trains", "told"),
    [
        ((batch, product(100)), True, "Copy the next batch on a separate stream"),
        ((weights_forward,), False, "weights that are offloaded to the host"),
        ((weights_forward, passes), True, "offloaded weights, activations or states"),
    ],
)
def test_the_cure_is_that_of_what_is_copied(tmp_path: Path, work: Sequence[Work], trains: bool, told: str) -> None:
    trace = job(*work)
    trace.trains = trains
    finding = next(each for each in analysed(tmp_path, trace).findings if each.rule == "exposed-copies")

    assert finding.severity == "critical"
    assert told in finding.do.replace("\n", " ")
