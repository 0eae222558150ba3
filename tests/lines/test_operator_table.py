"""The longest operators of a job without a GPU: their own time, per step, with the sizes that took most of it."""

import pytest
from analysed import GEMM, measured
from kineto import Trace

from diagnose.judge.operator_table import OPERATORS_KEPT, operator_table

SMALL, LARGE = [[16, 16], [16, 16]], [[1024, 96], [96, 1024]]


def job(steps: int = 4, gpu: str | None = None) -> Trace:
    """Each step a linear layer: `addmm` inside `linear`, twice with sizes that differ."""
    trace = Trace(gpu=gpu)
    for _ in range(steps):
        with trace.step():
            for dims, us in ((SMALL, 10), (LARGE, 90)):
                with trace.inside("aten::linear", dims):
                    trace.host(5)
                    trace.cpu_op("aten::addmm", us, dims)
            trace.host(100)
    return trace


def test_an_operator_has_its_own_time_count_share_and_sizes() -> None:
    first, second = operator_table(measured(job()))

    assert (first.name, first.ns, first.count, first.mean_ns) == ("aten::addmm", 100_000, 2, 50_000)
    assert first.share == pytest.approx(100 / 210)
    assert first.shapes == "1024x96, 96x1024"
    assert (second.name, second.ns) == ("aten::linear", 10_000)


def test_sizes_that_were_not_recorded_are_empty() -> None:
    trace = Trace(gpu=None)
    with trace.step():
        trace.cpu_op("aten::mm", 10)

    assert [row.shapes for row in operator_table(measured(trace))] == [""]


def test_the_rest_shares_a_row_and_no_time_is_lost() -> None:
    trace = Trace(gpu=None)
    with trace.step():
        for number in range(OPERATORS_KEPT + 3):
            trace.cpu_op(f"aten::op{number}", 1000 - number)

    *named, rest = operator_table(measured(trace))

    assert (len(named), rest.name, rest.names, rest.count) == (OPERATORS_KEPT, "", 3, 3)
    assert sum(row.ns for row in (*named, rest)) == sum(1000 - n for n in range(OPERATORS_KEPT + 3)) * 1000


def test_what_lies_outside_of_the_counted_steps_is_not_listed() -> None:
    trace = job()
    trace.cpu_op("aten::after", 5000)

    assert {row.name for row in operator_table(measured(trace))} == {"aten::addmm", "aten::linear"}


def test_a_job_on_a_gpu_lists_kernels_instead() -> None:
    trace = job(gpu="NVIDIA H100 80GB HBM3")
    trace.op("aten::mm", SMALL, GEMM, 50)

    assert operator_table(measured(trace)) == ()
