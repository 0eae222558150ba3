"""Ranks that disagree on their collectives, and captures that only seem to."""

from collections.abc import Callable
from typing import Any

import pytest
from analysed import GEMM, content, digest
from kineto import Trace

from diagnose.diagnosis.postmortem import Mismatch
from diagnose.ranks.collectives.mismatches import mismatches_of

MIB = 1 << 20
Work = Callable[[Trace, int], None]


def found(ranks: int, work: Work, seq: bool = True, steps: int = 5, cut: int = -1) -> tuple[Mismatch, ...]:
    """What ranks disagree on that each do `work(trace, step)`; the trace of rank `cut` loses its last 10 kernels."""
    traces = [Trace(rank=rank, world=ranks) for rank in range(ranks)]
    for trace in traces:
        for step in range(steps):
            with trace.step():
                work(trace, step)
                trace.launch(GEMM, 100)
    jsons = [content(trace) for trace in traces]
    for number, trace in enumerate(jsons):
        lose(trace, seq, number == cut)
    return mismatches_of([digest(trace, rank) for rank, trace in enumerate(jsons)])


def lose(trace: dict[str, Any], seq: bool, cut: bool) -> None:
    kernels = [e for e in trace["traceEvents"] if e.get("cat") == "kernel" and "Seq" in e["args"]]
    gone = kernels[-10:] if cut else []
    trace["traceEvents"] = [e for e in trace["traceEvents"] if e not in gone]
    for event in trace["traceEvents"]:
        if not seq:
            event.get("args", {}).pop("Seq", None)


def reduce(trace: Trace, count: int = 4, bytes: int = MIB, name: str = "allreduce") -> None:
    for _ in range(count):
        trace.collective(name, bytes, 50)


both = pytest.mark.parametrize("seq", [True, False])


@both
def test_ranks_that_agree(seq: bool) -> None:
    assert found(3, lambda trace, step: reduce(trace), seq) == ()


@both
def test_a_rank_that_leaves_one_out(seq: bool) -> None:
    (one,) = found(3, lambda trace, step: reduce(trace, 3 if (trace.rank, step) == (1, 2) else 4), seq)

    assert (one.kind, one.group, one.ranks) == ("count", "0", (1,))
    assert one.says == ("rank 1 ran 3 collectives of group 0 in step 12, other ranks 4; they differ from number 4 on")


@both
def test_a_rank_that_adds_one_in_front(seq: bool) -> None:
    def work(trace: Trace, step: int) -> None:
        if (trace.rank, step) == (2, 2):
            reduce(trace, 1, 8 * MIB)
        reduce(trace)

    (one,) = found(3, work, seq)

    assert one.says == ("rank 2 ran 5 collectives of group 0 in step 12, other ranks 4; they differ from number 1 on")


@both
def test_sizes_that_differ_at_the_same_place(seq: bool) -> None:
    def work(trace: Trace, step: int) -> None:
        reduce(trace, 2)
        reduce(trace, 1, 2 * MIB if trace.rank == 1 and step >= 3 else MIB)

    (one,) = found(3, work, seq)

    assert (one.kind, one.ranks) == ("size", (1,))
    assert one.says.startswith("rank 1 sent 2,097,152 bytes where other ranks of group 0 sent 1,048,576 bytes (")
    assert one.says.endswith("step 13)")


@both
def test_kinds_that_differ_at_the_same_place(seq: bool) -> None:
    def work(trace: Trace, step: int) -> None:
        reduce(trace, 2)
        reduce(trace, 1, name="broadcast" if trace.rank == 0 and step == 2 else "allreduce")

    (one,) = found(3, work, seq)

    assert (one.kind, one.ranks) == ("kind", (0,))
    assert one.says.startswith("rank 0 ran broadcast where other ranks of group 0 ran allreduce (")


def test_a_rank_of_the_group_without_any_call() -> None:
    def work(trace: Trace, step: int) -> None:
        reduce(trace, 1)
        if trace.rank != 2:
            trace.collective("allreduce", MIB, 50, group="1", ranks=[0, 1, 2])

    (one,) = found(4, work)

    assert (one.kind, one.group, one.ranks) == ("missing", "1", (2,))


def test_other_groups_members_owe_nothing() -> None:
    def work(trace: Trace, step: int) -> None:
        first = trace.rank // 2 * 2
        for _ in range(1 + first):
            trace.collective("allreduce", MIB, 50, group="1", ranks=[first, first + 1])

    assert found(4, work) == ()


@both
def test_what_the_end_of_a_capture_cut_off_is_no_disagreement(seq: bool) -> None:
    assert found(3, lambda trace, step: reduce(trace, 12), seq, cut=1) == ()


def test_messages_of_all_to_all_may_differ() -> None:
    def work(trace: Trace, step: int) -> None:
        args = {"Collective name": "all_to_allv", "dtype": "BFloat16", "Process Group Name": "0", "Group size": 2,
                "In msg nelems": 1000 * (1 + trace.rank), "Out msg nelems": 500, "Seq": step}  # fmt: skip
        trace.launch("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", 50, **args)

    assert found(2, work) == ()
