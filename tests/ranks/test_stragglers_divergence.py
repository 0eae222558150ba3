"""The first operation of a late rank's step that ran unlike the other ranks'."""

from collections.abc import Callable

import pytest
from analysed import GEMM, digest, timeline
from kineto import Trace, collective

from diagnose.ranks import join
from diagnose.ranks.straggler_report import stragglers_of

Extra = Callable[[Trace], object]


def told(extra: Extra, *, world: int = 4, gpu: str | None = "NVIDIA H100 80GB HBM3", gemm_us: float = 300) -> str:
    """What is said of rank 2, which does something extra between two operators of each step, or has slower kernels."""
    traces = [Trace(gpu, rank=r, world=world) for r in range(world)]
    for _ in range(5):
        marks = [trace.step() for trace in traces]
        for mark, trace in zip(marks, traces, strict=True):
            mark.__enter__()
            trace.cpu_op("aten::embedding", 100)
            if trace.rank == 2:
                extra(trace)
            trace.op("aten::mm", [[512, 512], [512, 512]], GEMM, gemm_us if trace.rank == 2 else 300)
            trace.op("aten::mm", [[512, 512], [512, 512]], GEMM, gemm_us if trace.rank == 2 else 300)
        collective(traces, "allreduce", 1 << 22, 100, wait=True)
        for mark, trace in zip(marks, traces, strict=True):
            trace.sync(stream=None)
            mark.__exit__(None, None, None)
    found = join([digest(trace, trace.rank) for trace in traces])
    (straggler,) = stragglers_of(found, [timeline(trace, trace.rank) for trace in traces])
    assert straggler.rank == 2
    return straggler.first_diverging


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        (
            lambda t: t.cpu_op("aten::item", 3000),
            "rank 2: aten::item 3.0 ms, which the other ranks do not run, 100.0 us",
        ),
        (lambda t: t.host(3000), "rank 2: 3.0 ms before aten::mm instead of 0 ns, 100.0 us into the step"),
        (lambda t: t.loader(us=3000), "SingleProcessDataLoaderIter.__next__ 3.0 ms, which the other ranks do not run"),
    ],
)
def test_what_the_rank_alone_does_on_the_host(extra: Extra, says: str) -> None:
    assert says in told(extra)


def test_the_first_of_the_slower_kernels() -> None:
    says = told(lambda trace: None, gemm_us=600)

    assert f"rank 2: {GEMM} 600.0 us instead of 300.0 us" in says


def test_an_operation_that_takes_longer_is_told_with_what_it_takes_elsewhere() -> None:
    traces = [Trace(rank=r, world=4) for r in range(4)]
    for _ in range(5):
        marks = [trace.step() for trace in traces]
        for mark, trace in zip(marks, traces, strict=True):
            mark.__enter__()
            with trace.inside("aten::linear"):
                trace.cpu_op("aten::t", 10)
                trace.host(2000 if trace.rank == 1 else 50)
            trace.launch(GEMM, 300)
        collective(traces, "allreduce", 1 << 22, 100, wait=True)
        for mark, trace in zip(marks, traces, strict=True):
            trace.sync(stream=None)
            mark.__exit__(None, None, None)
    found = join([digest(trace, trace.rank) for trace in traces])
    (straggler,) = stragglers_of(found, [timeline(trace, trace.rank) for trace in traces])

    assert straggler.first_diverging == "rank 1: aten::linear 2.0 ms instead of 50.0 us, 10.0 us into the step"


def test_nothing_is_told_of_a_rank_that_was_not_measured() -> None:
    traces = [Trace(rank=r, world=2) for r in range(2)]
    for _ in range(5):
        marks = [trace.step() for trace in traces]
        for mark, trace in zip(marks, traces, strict=True):
            mark.__enter__()
            trace.loader(us=2000 if trace.rank else 10)
            trace.launch(GEMM, 300)
        collective(traces, "allreduce", 1 << 22, 100, wait=True)
        for mark, trace in zip(marks, traces, strict=True):
            trace.sync(stream=None)
            mark.__exit__(None, None, None)
    found = join([digest(trace, trace.rank) for trace in traces])

    assert [s.first_diverging for s in stragglers_of(found, [timeline(traces[0], 0)])] == [""]
