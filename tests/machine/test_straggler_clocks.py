"""A rank whose kernels are slower: what its clock says beside those of the others."""

from collections.abc import Sequence
from contextlib import ExitStack

import pytest
from analysed import GEMM, job
from kineto import Trace, collective
from msgspec.structs import replace

from diagnose.ranks import join
from diagnose.ranks.stragglers.straggler_report import stragglers_of
from diagnose.trace.readings import GpuClock

HOT = GpuClock(1155, ("heat",))
FAST = GpuClock(1755)


def slow_rank(gpu: str = "NVIDIA H100 80GB HBM3") -> list[Trace]:
    """Four ranks that do the same work, of which the last takes half as long again."""
    traces = [Trace(gpu=gpu, rank=rank, world=4) for rank in range(4)]
    for _ in range(5):
        with ExitStack() as marks:
            for trace in traces:
                marks.enter_context(trace.step())
                for _ in range(6):
                    trace.op("aten::mm", [[512, 512], [512, 512]], GEMM, 450 if trace.rank == 3 else 300)
            collective(traces, "allreduce", 1 << 22, 100, wait=True)
            for trace in traces:
                trace.sync(stream=None)
    return traces


def because(clocks: Sequence[GpuClock | None]) -> str:
    """Why the last rank is late, with these clocks of the four."""
    found = job(slow_rank())
    (straggler,) = stragglers_of(
        join([replace(rank, clock=clock) for rank, clock in zip(found.ranks, clocks, strict=True)])
    )
    assert straggler.cause == "slower_kernels"
    return straggler.because


@pytest.mark.parametrize(
    ("clocks", "says"),
    [
        ([FAST, FAST, FAST, HOT], "its clock is at 1,155 MHz, the others' at 1,755 MHz, held down by heat"),
        ([FAST, FAST, FAST, FAST], "its clock is at 1,755 MHz, the others' at 1,755 MHz: not what makes it slower"),
        ([None, None, None, HOT], "its clock is at 1,155 MHz, held down by heat"),
        ([FAST, None, None, GpuClock(900)], "its clock is at 900 MHz, the others' at 1,755 MHz"),
    ],
    ids=["heat", "the clock is not to blame", "the others' were not read", "nothing says what holds it down"],
)
def test_slower_kernels_name_the_clock(clocks: Sequence[GpuClock | None], says: str) -> None:
    assert says in because(clocks)


def test_without_readings_no_clock_is_named() -> None:
    assert "its clock" not in because([None] * 4)
