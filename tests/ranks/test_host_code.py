"""Whether a rank that its host makes late runs more code than the others or the same code slower, and where."""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from analysed import job
from kineto import Trace, collective

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis
from diagnose.diagnosis.postmortem import Straggler
from diagnose.ranks.stragglers.straggler_report import stragglers_of

Work = Callable[[Trace], object]
OPERATORS = ("aten::embedding", "aten::index", "aten::view", "aten::permute")
ONCE_MS = 3.0


def traces(late: Work, operator_us: float = 250, operators: tuple[str, ...] = OPERATORS, count: int = 2) -> list[Trace]:
    """Ranks that run the same operators; the last one's take `operator_us` each, and it does something more."""
    ranks = [Trace(rank=r, world=count) for r in range(count)]
    for _ in range(6):
        with ExitStack() as opened:
            for trace in ranks:
                opened.enter_context(trace.step())
                is_late = trace.rank == count - 1
                for name in operators * 3:
                    trace.cpu_op(name, operator_us if is_late else 250)
                if is_late:
                    late(trace)
            collective(ranks, "allreduce", 1 << 22, 100, wait=True)
            for trace in ranks:
                trace.sync(stream=None)
    return ranks


def straggler(late: Work, operator_us: float = 250, operators: tuple[str, ...] = OPERATORS) -> Straggler:
    (found,) = stragglers_of(job(traces(late, operator_us, operators)))
    assert found.rank == 1
    return found


def report(late: Work, operator_us: float = 250, operators: tuple[str, ...] = OPERATORS) -> Diagnosis:
    with tempfile.TemporaryDirectory() as folder:
        for trace in traces(late, operator_us, operators):
            trace.write(Path(folder) / f"rank{trace.rank}.json")
        return analyze(folder)


def nothing(trace: Trace) -> None:
    """The late rank does nothing else."""


def in_range(trace: Trace) -> None:
    with trace.annotation("write_dashboard"):
        trace.host(1000 * ONCE_MS)


def in_function(trace: Trace) -> None:
    """A function of the job and what it calls, under the frame of the whole loop."""
    begin = trace.now
    trace.host(1000 * ONCE_MS)
    for name in ("<built-in function sleep>", "train.py(12): score"):
        trace.now = begin
        trace.event("python_function", name, 1000 * ONCE_MS)
    trace.now = begin
    trace.event("python_function", "train.py(88): main", 1000 * ONCE_MS + 10)


@pytest.mark.parametrize(
    ("late", "operator_us", "code", "where"),
    [
        (lambda trace: trace.host(1000 * ONCE_MS), 250, "more", ""),
        (in_range, 250, "more", "range write_dashboard, 3.0 ms per step, which the other ranks do not run"),
        (in_function, 250, "more", "function train.py(12): score"),
        (lambda trace: trace.cpu_op("aten::sort", 3000), 250, "more", "operator aten::sort, 3.0 ms per step"),
        (nothing, 500, "slower", ""),
        (lambda trace: trace.host(1000), 500, "slower", ""),
    ],
)
def test_more_code_is_told_from_a_slower_host(late: Work, operator_us: float, code: str, where: str) -> None:
    found = straggler(late, operator_us)

    assert (found.cause, found.host_code) == ("host", code)
    assert found.where.startswith(where)
    assert found.where in found.because
    assert bool(found.where) == bool(where)


def test_work_of_one_rank_alone_is_looked_for_in_the_code_and_not_on_the_node() -> None:
    (finding,) = (f for f in report(in_range).findings if f.rule == "straggler")

    assert 'under "if rank == ..."' in finding.do
    assert "range write_dashboard" in finding.do
    assert "other processes" not in finding.do


def test_the_same_operators_taking_longer_are_looked_for_on_the_node() -> None:
    (finding,) = (f for f in report(nothing, 500).findings if f.rule == "straggler")

    assert "other processes" in finding.do
    assert "if rank" not in finding.do


def test_without_operators_to_compare_nobody_says_which_it_is() -> None:
    ranks = [Trace(rank=r, world=2) for r in range(2)]
    for _ in range(6):
        with ExitStack() as opened:
            for trace in ranks:
                opened.enter_context(trace.step())
                with trace.annotation("forward"):
                    trace.host(5000 if trace.rank else 1000)
            collective(ranks, "allreduce", 1 << 22, 100, wait=True)
            for trace in ranks:
                trace.sync(stream=None)

    (found,) = stragglers_of(job(ranks))

    assert (found.cause, found.host_code) == ("host", "unknown")
    assert found.where == "range forward, 5.0 ms per step instead of 1.0 ms"


@pytest.mark.parametrize(
    ("late", "code", "where"),
    [
        (
            lambda trace: trace.cpu_op("aten::sort", 3000),
            "more",
            "operator aten::sort, 3.0 ms per step, which the other",
        ),
        (in_range, "more", "range write_dashboard, 3.0 ms per step, which the other"),
        (lambda trace: trace.host(3000), "unknown", ""),
    ],
)
def test_a_place_that_one_rank_alone_runs_is_more_code_whatever_operators_there_are(
    late: Work, code: str, where: str
) -> None:
    """Two operators that all ranks run are too few to compare."""
    found = straggler(late, operators=("aten::view", "aten::index"))

    assert (found.cause, found.host_code) == ("host", code)
    assert found.where.startswith(where)
    assert bool(found.where) == bool(where)


def test_what_one_rank_alone_runs_is_looked_for_in_the_code() -> None:
    found = report(lambda trace: trace.cpu_op("aten::sort", 3000), operators=())

    (finding,) = (f for f in found.findings if f.rule == "straggler")

    assert 'under "if rank == ..."' in finding.do
    assert "operator aten::sort" in finding.do
    assert "other processes" not in finding.do
