"""Several ranks of one job: transfer and waiting, who is waited for, and why it is late."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from analysed import ADD, GEMM, MS, US, content, digest, job
from kineto import Trace, collective

from diagnose.attribution.causes import WAITING
from diagnose.facts import Unknown
from diagnose.ranks import GroupMatch, Job, Match, match

Work = Callable[[Trace, int], None]
TRANSFER_US = 200


def ranks(count: int, work: Work, steps: int = 4) -> list[Trace]:
    """Each step every rank works, enters one all-reduce, and waits for it."""
    traces = [Trace(rank=r, world=count) for r in range(count)]
    for step in range(steps):
        with ExitStack() as opened:
            for trace in traces:
                opened.enter_context(trace.step())
                work(trace, step)
            collective(traces, "allreduce", 1 << 22, TRANSFER_US, wait=True)
            for trace in traces:
                trace.sync(stream=None)
    return traces


def kernels(trace: Trace, count: int = 10, us: float = 300) -> None:
    for _ in range(count):
        trace.launch(GEMM, us)


def only(late: int, extra: Callable[[Trace], object]) -> Work:
    """3 ms of kernels on every rank; the late one does something else first."""

    def work(trace: Trace, step: int) -> None:
        if trace.rank == late:
            extra(trace)
        kernels(trace)

    return work


def matched(found: Match | Unknown) -> GroupMatch:
    """The one group of the job."""
    assert not isinstance(found, Unknown)
    (group,) = found
    return group


def ns(found: Job, rank: int, cause: str) -> int:
    return found.breakdown(rank).get(cause, 0)


def test_transfer_is_the_shortest_duration_and_the_rest_is_waiting() -> None:
    traces = ranks(3, only(1, lambda trace: trace.loader(us=5000)))

    found = matched(match([digest(trace, trace.rank) for trace in traces]))

    assert found.transfer.tolist() == [TRANSFER_US * US] * 3, "of four steps the first is not counted"
    assert (found.waiting[:, 1] == 0).all()
    assert (found.waiting[:, [0, 2]] > 4.9 * MS).all()


@pytest.mark.parametrize(
    ("cause", "class_", "extra"),
    [
        ("data", "data", lambda trace: trace.loader(us=5000)),
        ("host", "host", lambda trace: trace.cpu_op("aten::index", 5000)),
        ("gc", "host", lambda trace: trace.gc(5000)),
        ("more_work", "compute", lambda trace: kernels(trace, 20)),
    ],
)
def test_waiting_goes_to_what_made_the_late_rank_late(
    cause: str, class_: str, extra: Callable[[Trace], object]
) -> None:
    found = job(ranks(3, only(2, extra)))

    assert [(late.rank, late.cause) for late in found.stragglers] == [(2, cause)]
    assert ns(found, 0, f"late-rank-{class_}") > 3 * 4.9 * MS
    assert ns(found, 0, "exposed-communication") == 3 * TRANSFER_US * US


def test_as_many_kernels_that_take_longer_are_slower_kernels() -> None:
    found = job(ranks(4, lambda trace, step: kernels(trace, 10, 500 if trace.rank == 3 else 300)))

    assert [(late.rank, late.cause) for late in found.stragglers] == [(3, "slower_kernels")]


@pytest.mark.parametrize("after_us", [300, 1000, 3000])
def test_the_cause_is_found_when_work_that_all_ranks_share_follows_it(after_us: float) -> None:
    def work(trace: Trace, step: int) -> None:
        if trace.rank == 1:
            trace.loader(us=5000)
        kernels(trace, 10, after_us)

    found = job(ranks(4, work))

    assert [(late.rank, late.cause) for late in found.stragglers] == [(1, "data")]
    assert ns(found, 0, "late-rank-data") > 3 * 4.9 * MS


def test_nobody_is_named_when_the_late_rank_changes() -> None:
    def work(trace: Trace, step: int) -> None:
        kernels(trace, 10, 500 if trace.rank == step % 4 else 300)

    found = job(ranks(4, work, steps=9))

    assert found.view.matched
    assert (found.stragglers, found.view.straggler_share, found.view.straggler_cause) == ((), 0.0, "none")


def test_nobody_is_named_in_a_job_of_equal_ranks() -> None:
    found = job(ranks(4, lambda trace, step: kernels(trace)))

    assert found.stragglers == ()
    assert sum(ns for cause, ns in found.breakdown(0).items() if cause in WAITING) == 0


def test_nobody_is_named_for_less_than_5_percent_of_the_step() -> None:
    found = job(ranks(4, only(2, lambda trace: trace.loader(us=100))))

    assert found.stragglers == ()


def test_a_single_pause_is_no_straggler() -> None:
    def work(trace: Trace, step: int) -> None:
        if trace.rank == 2 and step == 3:
            trace.gc(20_000)
        kernels(trace)

    assert job(ranks(4, work, steps=8)).stragglers == ()


def without_seq(trace: Trace) -> dict[str, Any]:
    found = content(trace)
    for event in found["traceEvents"]:
        event.get("args", {}).pop("Seq", None)
    return found


def test_without_seq_equal_counts_match_in_order() -> None:
    traces = ranks(2, only(1, lambda trace: trace.loader(us=5000)))

    found = job([without_seq(trace) for trace in traces])

    assert [(late.rank, late.cause) for late in found.stragglers] == [(1, "data")]


@pytest.mark.parametrize(("more_in", "judged"), [(range(4), 0), (range(3, 4), 2)])
def test_without_seq_steps_with_unequal_counts_are_not_judged(more_in: range, judged: int) -> None:
    def work(trace: Trace, step: int) -> None:
        kernels(trace)
        if trace.rank == 1 and step in more_in:
            trace.collective("allreduce", 1 << 22, 100, wait=True)

    traces = [without_seq(trace) for trace in ranks(2, work)]
    found, outcome = job(traces), match([digest(trace) for trace in traces])

    assert found.view.matched == (judged > 0)
    if judged:
        assert len(matched(outcome).start) == judged
    else:
        assert "number" in found.view.why_unmatched.because
        assert ns(found, 0, "exposed-communication") > 0


def test_seq_matches_when_the_order_differs() -> None:
    traces = [Trace(rank=r, world=2) for r in range(2)]
    for trace, order in zip(traces, [(1, 2), (2, 1)], strict=True):
        with trace.step():
            for seq in order:
                trace.collective("allreduce", 1 << 20, 100 * seq, seq=seq)
                trace.launch(ADD, 10)

    found = matched(match([digest(trace, trace.rank) for trace in traces]))

    assert found.duration.tolist() == [[100 * US, 100 * US], [200 * US, 200 * US]]


def test_one_rank_of_many_cannot_tell_transfer_from_waiting() -> None:
    found = job(ranks(4, lambda trace, step: kernels(trace))[:1])

    assert (found.view.matched, found.view.ranks) == (False, 1)
    assert "one rank" in found.view.why_unmatched.because


def test_a_rank_that_is_missing_does_not_prevent_the_others() -> None:
    traces = ranks(4, only(2, lambda trace: trace.loader(us=5000)))

    found = job([traces[0], traces[2], traces[3]])

    assert [(late.waiting_ns_caused > 0, late.cause) for late in found.stragglers] == [(True, "data")]


@pytest.mark.parametrize("seconds", [-7, 3])
def test_clocks_that_differ_by_seconds_change_nothing(seconds: int) -> None:
    traces = [content(trace) for trace in ranks(3, only(2, lambda trace: trace.loader(us=5000)))]
    moved = traces[1] | {"traceEvents": [e | {"ts": e["ts"] + seconds * 1_000_000} for e in traces[1]["traceEvents"]]}

    before, after = job(traces), job([traces[0], moved, traces[2]])

    assert [before.breakdown(r) for r in range(3)] == [after.breakdown(r) for r in range(3)]
    assert before.lateness == after.lateness


def test_what_a_rank_waits_is_taken_out_of_its_own_communication_only() -> None:
    found = job(ranks(3, only(1, lambda trace: trace.loader(us=5000))))

    for position, rank in enumerate(found.ranks):
        assert sum(found.breakdown(position).values()) == rank.total_ns
    assert ns(found, 1, "late-rank-data") == 0


@pytest.mark.parametrize(("late_works_on", "transfer_us"), [(False, TRANSFER_US), (True, 0)])
def test_a_transfer_behind_which_the_late_rank_works_on_is_waiting_for_it(
    late_works_on: bool, transfer_us: float
) -> None:
    traces = [Trace(rank=r, world=3) for r in range(3)]
    for _ in range(4):
        with ExitStack() as opened:
            for trace in traces:
                opened.enter_context(trace.step())
                only(1, lambda trace: trace.loader(us=5000))(trace, 0)
            collective(traces, "allreduce", 1 << 22, TRANSFER_US)
            kernels(traces[1], 2 * late_works_on)
            for trace in traces:
                trace.sync(stream=None)

    found = job(traces)

    assert ns(found, 0, "exposed-communication") == 3 * transfer_us * US
    assert ns(found, 0, "late-rank-data") > 3 * (5100 - transfer_us) * US
