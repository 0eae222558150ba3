"""Kernels that collectives slow down, in a job whose ranks also wait for each other."""

import pytest
from analysed import ADD, GEMM, content, timeline
from kineto import Trace, collective

from diagnose.attribution.attribution import attribute
from diagnose.metrics import Measured, measure
from diagnose.metrics.settings import Settings
from diagnose.ranks import digest_of, join

DIMS = [[4096, 4096], [4096, 4096]]


@pytest.mark.parametrize(("beside_us", "factor"), [(1300, 1.3), (1000, 1.0)])
def test_kernels_beside_a_collective_are_held_against_the_same_ones_alone(beside_us: float, factor: float) -> None:
    traces = [Trace(rank=rank, world=2) for rank in range(2)]
    for _ in range(5):
        for trace in traces:
            trace.op("aten::add", [[1 + trace.rank]], ADD, 1000 * (1 + trace.rank))
        collective(traces, "allreduce", 1 << 26, 1500)
        for trace in traces:
            trace.op("aten::mm", DIMS, GEMM, beside_us)
            trace.wait()
            trace.op("aten::mm", DIMS, GEMM, 1000)
            trace.sync()

    lines = [timeline(content(trace), rank) for rank, trace in enumerate(traces)]
    attributions = [attribute(line) for line in lines]
    found = join([digest_of(line, own) for line, own in zip(lines, attributions, strict=True)])

    for position, (line, own) in enumerate(zip(lines, attributions, strict=True)):
        facts = measure(Measured(line, found.divided(position, own), found.view, Settings()))
        assert found.view.matched
        assert facts["overlap_slowdown_factor"].value == pytest.approx(factor, rel=0.02)
