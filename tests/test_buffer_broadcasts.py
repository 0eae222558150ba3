"""What of a step is DDP's broadcast of buffers, and what only looks like it."""

from collections.abc import Callable

import pytest
from analysed import GEMM, facts
from distributed_traces import COPY, DDP, KIB
from kineto import Trace

from diagnose.facts import Unknown

Work = Callable[[Trace], object]


def packs(job: Trace) -> None:
    job.cpu_op("aten::flatten_dense_tensors", 100)


def sends(job: Trace) -> None:
    with job.inside("c10d::broadcast_"):
        job.collective("broadcast", KIB, 10)


def unpacks(job: Trace) -> None:
    job.cpu_op("aten::unflatten_dense_tensors", 200)
    job.op("aten::copy_", [[64], [64]], COPY, 20)


def computes(job: Trace) -> None:
    job.op("aten::mm", [[4096, 4096]] * 2, GEMM, 500)


def milliseconds(*forward: Work, wrapper: str = DDP) -> tuple[float, float]:
    """Of a step whose forward pass does the work in turn: what the broadcast takes, and the host's part of it."""
    job = Trace(world=2)
    for _ in range(4):
        with job.step():
            job.sync()
            with job.annotation(wrapper):
                for part in forward:
                    part(job)
    found = facts(job)
    step_ms, both, host = (
        float(found[name].value)  # type: ignore[arg-type]
        for name in ("step_time_ns", "buffer_sync_share", "buffer_sync_host_share")
    )
    return step_ms * both / 1e6, step_ms * host / 1e6


def test_packing_broadcast_and_unpacking_are_the_hosts_and_copies_come_to_them() -> None:
    """0.1 ms of packing, 0.2 ms of unpacking and the calls between them; 10 us of a broadcast and 20 us of copies."""
    both, host = milliseconds(packs, sends, unpacks, computes)

    assert host == pytest.approx(0.3, abs=0.05)
    assert both == pytest.approx(host + 0.03, abs=0.02)


def test_the_range_of_ddps_own_function_counts_whole() -> None:
    def in_python(job: Trace) -> None:
        job.event("python_function", "torch/nn/parallel/distributed.py(2155): _sync_buffers", 400)

    assert milliseconds(in_python, computes)[1] == pytest.approx(0.4, abs=0.01)


@pytest.mark.parametrize(
    "forward",
    [
        (computes, sends, computes),  # the model's own message
        (packs, unpacks, computes),  # nothing is sent
        (packs, computes, sends),  # something else lies between
    ],
)
def test_what_is_no_broadcast_of_buffers_does_not_count(forward: tuple[Work, ...]) -> None:
    assert milliseconds(*forward) == (0, 0)


def test_outside_of_the_wrapper_nothing_counts() -> None:
    assert milliseconds(packs, sends, unpacks, wrapper="own forward") == (0, 0)


def test_without_a_broadcast_and_a_record_nobody_knows_the_setting() -> None:
    job = Trace()
    with job.step():
        computes(job)

    assert isinstance(facts(job)["broadcasts_buffers"].value, Unknown)
