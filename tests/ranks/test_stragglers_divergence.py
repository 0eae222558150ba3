"""The first operation of a late rank's step that ran unlike the other ranks'."""

from collections.abc import Callable
from contextlib import ExitStack

import pytest
from analysed import GEMM, digest, timeline
from kineto import Trace, collective

from diagnose.ranks import join
from diagnose.ranks.stragglers.straggler_report import stragglers_of

Extra = Callable[[Trace], object]


def told(work: Extra, late: int = 2, measured: int = 4) -> str:
    """What is said of the late one of four ranks, which all do `work`, reduce, and wait for it."""
    traces = [Trace(rank=r, world=4) for r in range(4)]
    for _ in range(5):
        with ExitStack() as opened:
            for trace in traces:
                opened.enter_context(trace.step())
                work(trace)
            collective(traces, "allreduce", 1 << 22, 100, wait=True)
            for trace in traces:
                trace.sync(stream=None)
    found = join([digest(trace, trace.rank) for trace in traces])
    (straggler,) = stragglers_of(found, [timeline(trace, trace.rank) for trace in traces[:measured]])
    assert straggler.rank == late
    return straggler.first_diverging


def with_extra(extra: Extra, slower: float = 1) -> Extra:
    """Rank 2 does something extra between two operators, or has slower kernels."""

    def work(trace: Trace) -> None:
        trace.cpu_op("aten::embedding", 100)
        if trace.rank == 2:
            extra(trace)
        for _ in range(2):
            trace.op("aten::mm", [[512, 512], [512, 512]], GEMM, 300 * (slower if trace.rank == 2 else 1))

    return work


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        (lambda t: t.cpu_op("aten::item", 3000), "aten::item 3.0 ms, which the other ranks do not run, 100.0 us"),
        (
            lambda t: t.host(3000),
            "3.0 ms between aten::embedding and aten::mm instead of 0 ns, 100.0 us into the",
        ),
        (lambda t: t.loader(us=3000), "SingleProcessDataLoaderIter.__next__ 3.0 ms, which the other ranks do not run"),
    ],
)
def test_what_the_rank_alone_does_on_the_host(extra: Extra, says: str) -> None:
    assert says in told(with_extra(extra))


def test_the_first_of_the_slower_kernels() -> None:
    says = told(with_extra(lambda trace: None, slower=2))

    assert f"rank 2: {GEMM} 600.0 us instead of 300.0 us" in says


def test_an_operation_that_takes_longer_is_told_with_what_it_takes_elsewhere() -> None:
    def work(trace: Trace) -> None:
        with trace.inside("aten::linear"):
            trace.cpu_op("aten::t", 10)
            trace.host(2000 if trace.rank == 1 else 50)
        trace.launch(GEMM, 300)

    assert told(work, late=1) == "rank 1: aten::linear 2.0 ms instead of 50.0 us, 10.0 us into the step"


def test_nothing_is_told_of_a_rank_that_was_not_measured() -> None:
    assert told(with_extra(lambda trace: trace.loader(us=3000)), measured=2) == ""
