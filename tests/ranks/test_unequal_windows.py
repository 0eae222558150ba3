"""Ranks that captured different steps, or begin them apart: who is late in the steps that others share."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from analysed import GEMM, MS, content, job
from kineto import Trace, collective
from matched_jobs import Json, changed, digests, without
from msgspec.structs import replace

from diagnose.facts import Unknown
from diagnose.ranks import Job, match
from diagnose.ranks.network.slow_links import slow_links
from diagnose.ranks.stragglers.lateness import excess_of
from diagnose.ranks.stragglers.straggler_report import stragglers_of

FIRST = 10
Work = Callable[[Trace], object]


def ranks(count: int, before: Work, after: Work = lambda trace: None, steps: int = 10) -> list[Trace]:
    """Each step: work, one all-reduce that all wait for, and further work."""
    traces = [Trace(rank=r, world=count) for r in range(count)]
    for _ in range(steps):
        with ExitStack() as opened:
            for trace in traces:
                opened.enter_context(trace.step())
                trace.launch(GEMM, 3000)
                before(trace)
            collective(traces, "allreduce", 1 << 22, 200, wait=True)
            for trace in traces:
                after(trace)
                trace.sync(stream=None)
    return traces


def late(rank: int, us: float = 2000) -> Work:
    return lambda trace: trace.launch(GEMM, us) if trace.rank == rank else None


def cut(traces: Sequence[Trace], kept: Sequence[range]) -> list[Json]:
    """Of each trace the steps that its rank captured; without the numbers of the collectives."""
    return [changed(_only(content(trace), steps), without("Seq")) for trace, steps in zip(traces, kept, strict=True)]


def _only(trace: Json, steps: range) -> Json:
    begun = {e["name"]: e["ts"] for e in trace["traceEvents"] if e.get("cat") == "user_annotation"}
    begin, end = (begun.get(f"ProfilerStep#{n}", float("inf")) for n in (steps[0], steps[-1] + 1))
    trace["traceEvents"] = [e for e in trace["traceEvents"] if e["ph"] != "X" or begin <= e["ts"] < end]
    return trace


def named(found: Job) -> list[tuple[int, str, int, int]]:
    return [(late.rank, late.cause, len(late.steps), late.of_steps) for late in found.stragglers]


def test_steps_that_one_rank_lacks_match_between_the_others() -> None:
    traces = cut(ranks(3, late(1)), (range(10, 18), range(10, 18), range(10, 14)))

    found = match(digests(traces))

    assert not isinstance(found, Unknown)
    assert [(g.members.tolist(), g.absent, len(g.call)) for g in found] == [([0, 1, 2], 0, 3), ([0, 1], 1, 4)]


def test_a_late_rank_is_named_by_the_steps_that_it_captured() -> None:
    windows = (range(10, 16), range(13, 19), range(11, 18), range(10, 16))

    found = job(cut(ranks(4, late(1)), windows))

    assert named(found) == [(1, "more_work", 4, 4)]  # in steps 14 to 17: nobody else captured its last one


def test_a_rank_whose_trace_was_cut_off_hides_nobody() -> None:
    found = job(cut(ranks(4, late(1)), (range(10, 18), range(10, 18), range(10, 18), range(10, 13))))

    assert [late.rank for late in found.stragglers] == [1]
    assert found.stragglers[0].of_steps == 7


def test_ranks_that_began_their_capture_at_different_steps_are_not_late_in_the_first_that_they_share() -> None:
    found = digests(cut(ranks(2, lambda trace: None), (range(10, 18), range(13, 18))))
    shared = match(found)
    assert not isinstance(shared, Unknown)

    assert abs(excess_of(found, shared[0]).own_ns).max() < 0.1 * MS


def test_a_rank_that_works_on_behind_the_last_collective_is_late_in_all_steps() -> None:
    """What delays it in the first step lies before the capture."""
    found = job(ranks(4, lambda trace: None, after=late(0), steps=6))

    assert [(late.rank, late.persistence, late.of_steps) for late in found.stragglers] == [(0, "persistent", 4)]


def test_a_rank_that_gets_slower_is_named_with_the_step_since_which_it_is() -> None:
    def slower(trace: Trace) -> None:
        if trace.rank == 2 and trace.next_step > 15:
            trace.launch(GEMM, 1500)

    (told,) = stragglers_of(job(ranks(4, slower)))

    assert told.rank == 2
    assert told.because.endswith("late in 5 of 9 steps, in all since step 15")
    assert "it runs 2.00 times as many kernels" in told.because  # in these steps


def test_what_delayed_a_rank_before_the_capture_is_not_explained_by_what_it_does_in_it() -> None:
    """In the one step that is counted rank 1 begins 5 ms late, and waits for data a little longer."""

    def first(trace: Trace) -> None:
        if trace.rank == 1:
            trace.loader(us=100)

    traces = [Trace(rank=r, world=2, start_us=5000 * r) for r in range(2)]
    for _ in range(2):
        with ExitStack() as opened:
            for trace in traces:
                opened.enter_context(trace.step())
                first(trace)
                trace.launch(GEMM, 300)
            collective(traces, "allreduce", 1 << 22, 200, wait=True)
            for trace in traces:
                trace.sync(stream=None)
    one = [changed(_only(content(trace), range(FIRST, FIRST + 1)), without("Seq")) for trace in traces]

    found = job(one)

    assert found.breakdown(0)["late-rank-beginning"] > 4 * MS
    assert found.breakdown(0).get("late-rank-data", 0) == 0


def test_a_group_without_the_trace_of_one_rank_has_no_slow_link() -> None:
    """The rank without a trace may be the one that the others of its group wait for."""
    traces = [Trace(rank=r, world=8) for r in range(8)]
    for _ in range(5):
        with ExitStack() as opened:
            for trace in traces:
                opened.enter_context(trace.step())
                trace.launch(GEMM, 1000)
                late(5)(trace)
            for members in (traces[:4], traces[4:]):
                name = "+".join(str(m.rank) for m in members)
                collective(members, "allreduce", 1 << 22, 100, wait=True, group=name, ranks=[m.rank for m in members])
            for trace in traces:
                trace.sync(stream=None)
    kept = [d for d in digests(traces) if d.rank not in (1, 5)]
    kept = [replace(d, world_size=8) for d in kept]

    pairs = match(kept)
    assert not isinstance(pairs, Unknown)
    assert [g.absent for g in pairs] == [1, 1]
    assert slow_links(kept, pairs) == []
