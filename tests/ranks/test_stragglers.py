"""Who is named among the ranks of a job, who is not, and what is said of them."""

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack

import pytest
from analysed import ADD, GEMM, MS, job
from kineto import Trace, collective
from msgspec.structs import replace

from diagnose.ranks import Job, join
from diagnose.ranks.stragglers.straggler_report import missing_straggler, stragglers_of

Work = Callable[[Trace, int], None]
NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>()"


def ranks(count: int, work: Work, steps: int = 5) -> list[Trace]:
    """Each step every rank works, enters one all-reduce, and waits for it."""
    traces = [Trace(rank=r, world=count) for r in range(count)]
    for step in range(steps):
        together(traces, lambda trace, step=step: work(trace, step), [traces])  # type: ignore[misc]
    return traces


def together(traces: Sequence[Trace], work: Callable[[Trace], None], groups: Sequence[Sequence[Trace]]) -> None:
    """One step: all work, then the collectives of the groups, one after the other."""
    with ExitStack() as opened:
        for trace in traces:
            opened.enter_context(trace.step())
            work(trace)
        for members in groups:
            several = len(groups) > 1
            group = {"group": "+".join(str(m.rank) for m in members), "ranks": [m.rank for m in members]}
            collective(members, "allreduce", 1 << 22, 100, wait=True, **(group if several else {}))
        for trace in traces:
            trace.sync(stream=None)


def kernels(trace: Trace, gemm_us: float = 300, norm_us: float = 100, count: int = 6, rows: int = 512) -> None:
    for _ in range(count):
        trace.op("aten::mm", [[rows, 512], [512, 512]], GEMM, gemm_us)
        trace.op("aten::native_layer_norm", [[rows, 512]], NORM, norm_us)


def named(found: Job) -> list[tuple[int, str]]:
    return sorted((late.rank, late.cause) for late in found.stragglers)


def late(which: Sequence[int], extra: Callable[[Trace], object]) -> Work:
    def work(trace: Trace, step: int) -> None:
        if trace.rank in which:
            extra(trace)
        kernels(trace)

    return work


def test_several_late_ranks_are_named_though_only_one_of_them_is_last() -> None:
    found = job(ranks(8, late([2, 5], lambda trace: trace.loader(us=2000 + 10 * trace.rank))))

    assert named(found) == [(2, "data"), (5, "data")]
    assert all(late.waiting_ns_caused > 0 for late in found.stragglers), "the waiting is divided among them"


def test_the_waiting_of_late_ranks_adds_up_however_it_is_divided() -> None:
    alone = job(ranks(8, late([5], lambda trace: trace.loader(us=2000))))
    both = job(ranks(8, late([2, 5], lambda trace: trace.loader(us=2000))))

    assert sum(late.waiting_ns_caused for late in alone.lateness) == 4 * 7 * 2 * MS
    assert sum(late.waiting_ns_caused for late in both.lateness) == 4 * 6 * 2 * MS


def test_ranks_of_a_slow_host_are_told_to_be_all_of_it() -> None:
    found = job(ranks(8, lambda trace, step: kernels(trace, *((450, 150) if trace.rank in (4, 5) else ()))))
    hosts = join([replace(rank, host=f"node{rank.rank // 2}") for rank in found.ranks])

    assert named(hosts) == [(4, "slower_kernels"), (5, "slower_kernels")]
    assert all("all 2 ranks of its host" in s.because for s in stragglers_of(hosts))


def test_nobody_is_named_when_half_of_the_ranks_are_late_in_each_step() -> None:
    def work(trace: Trace, step: int) -> None:
        kernels(trace, 450 if (trace.rank + step) % 2 else 300)

    assert named(job(ranks(8, work))) == []


def test_a_step_held_up_once_is_told_and_nobody_is_accused() -> None:
    def work(trace: Trace, step: int) -> None:
        if trace.rank == 2 and step == 3:
            trace.gc(20_000)
        kernels(trace)

    found = job(ranks(4, work, steps=8))
    (passing,) = [late for late in found.lateness if late.persistence == "transient"]

    assert found.stragglers == ()
    assert (passing.rank, passing.cause, passing.steps) == (2, "gc", (13,))


def test_the_rank_that_passes_waiting_on_is_not_blamed_for_it() -> None:
    """Ranks 0 and 1 reduce together, 2 and 3 too; then 0 with 2 and 1 with 3. Rank 0 makes 1 late, and 1 makes 3."""
    traces = [Trace(rank=r, world=4) for r in range(4)]
    pairs = [[traces[0], traces[1]], [traces[2], traces[3]], [traces[0], traces[2]], [traces[1], traces[3]]]
    for _ in range(5):
        together(traces, lambda trace: late([0], lambda t: t.loader(us=3000))(trace, 0), pairs)

    found = job(traces)

    assert named(found) == [(0, "data")]
    assert [late.waiting_ns_caused for late in found.lateness if late.rank == 1] == [0]


@pytest.mark.parametrize(
    ("gemm_us", "norm_us", "says"),
    [(450, 150, "clocks, power or heat"), (300, 400, "something else uses the memory's bandwidth")],
)
def test_slower_kernels_say_which_families_and_what_that_means(gemm_us: float, norm_us: float, says: str) -> None:
    found = job(ranks(4, lambda trace, step: kernels(trace, *((gemm_us, norm_us) if trace.rank == 3 else ()))))
    (straggler,) = stragglers_of(found)

    assert straggler.cause == "slower_kernels"
    assert f"norm {norm_us / 100:.2f}" in straggler.because
    assert says in straggler.because


def test_kernels_that_take_longer_on_larger_inputs_are_more_work() -> None:
    found = job(ranks(4, lambda trace, step: kernels(trace, *((600, 200, 6, 1024) if trace.rank == 3 else ()))))
    (straggler,) = stragglers_of(found)

    assert straggler.cause == "more_work"
    assert "2.00 times the work" in straggler.because


@pytest.mark.parametrize(("tokens", "cause"), [(1400, "more_work"), (1000, "slower_kernels")])
def test_a_rank_whose_experts_got_more_tokens_has_more_work(tokens: int, cause: str) -> None:
    """Every rank sends 1000 elements to the experts and gets 1000 back; rank 2's kernels have no shapes to compare."""
    traces = [Trace(rank=r, world=4) for r in range(4)]
    for _ in range(5):
        with ExitStack() as opened:
            for trace in traces:
                opened.enter_context(trace.step())
            collective(traces, "all_to_allv", 2000, 50, wait=True)
            for trace in traces:
                trace.launch(GEMM, 3500 if trace.rank == 2 else 2500)
            collective(traces, "all_to_allv", 2000, 50, wait=True)
            collective(traces, "allreduce", 1 << 22, 100, wait=True)
            for trace in traces:
                trace.sync(stream=None)
    built = [trace.json() for trace in traces]
    calls = [
        e["args"] for e in built[2]["traceEvents"] if "all_to_allv" in e.get("args", {}).get("Collective name", "")
    ]
    for number, args in enumerate(calls):
        args["Out msg nelems" if number % 4 < 2 else "In msg nelems"] = tokens  # each on the host and on the device

    (straggler,) = stragglers_of(job(built))

    assert (straggler.rank, straggler.cause) == (2, cause)
    assert ("its experts got 40 % more tokens" in straggler.because) == (cause == "more_work")


def test_more_operators_that_hold_up_the_host_are_more_work() -> None:
    def work(trace: Trace, step: int) -> None:
        for _ in range(60 if trace.rank == 1 else 20):
            trace.op("aten::add", [[64], [64]], ADD, 2, host_us=50)

    assert named(job(ranks(4, work))) == [(1, "more_work")]


def test_the_excess_accounts_for_the_lateness() -> None:
    (straggler,) = stragglers_of(job(ranks(4, late([1], lambda trace: trace.cpu_op("aten::index", 2000)))))

    assert (straggler.cause, straggler.steps_late) == ("host", 4)
    assert "per step 2.0 ms more of" in straggler.because
    assert straggler.explained_share == pytest.approx(1, abs=0.02)


def test_the_cost_is_what_the_job_s_gpus_lose_in_a_day_without_the_cure() -> None:
    found = job(ranks(4, late([1], lambda trace: trace.loader(us=2400))))
    (straggler,) = stragglers_of(found, gpu_hour_price=2.5)

    (cured,) = (change for change in found.changes.changes if change.change == "no straggler")
    assert straggler.gpu_hours_per_day == pytest.approx(4 * 24 * (1 - 1 / cured.speedup[0]))
    assert straggler.cost_per_day == pytest.approx(2.5 * (straggler.gpu_hours_per_day or 0))


def test_a_group_whose_transfers_are_slower_than_the_other_groups_has_a_slow_link() -> None:
    """Pairs reduce first, the second of the four in 2 ms; then ranks of equal place in the pairs do."""
    traces = [Trace(rank=r, world=8) for r in range(8)]
    pairs = [traces[r : r + 2] for r in range(0, 8, 2)]
    for _ in range(5):
        with ExitStack() as opened:
            for trace in traces:
                opened.enter_context(trace.step())
                kernels(trace)
            for members in [*pairs, traces[0::2], traces[1::2]]:
                slow = 2000 if members is pairs[1] else 100
                group = {"group": "+".join(str(m.rank) for m in members), "ranks": [m.rank for m in members]}
                collective(members, "allreduce", 1 << 22, slow, wait=True, **group)
            for trace in traces:
                trace.sync(stream=None)

    found = job(traces)

    assert named(found) == [(2, "link"), (3, "link")]
    assert "20.0 times as long as in the other groups" in stragglers_of(found)[0].because


def test_a_missing_rank_may_be_the_late_one() -> None:
    traces = ranks(4, late([3], lambda trace: trace.loader(us=3000)))

    present, whole = job(traces[:3]), job(traces)

    assert named(present) == []
    suspect = missing_straggler(present)
    assert suspect is not None
    assert "trace is missing (3) may be the late one" in suspect.because
    assert missing_straggler(whole) is None


@pytest.mark.long
@pytest.mark.parametrize("count", [8, 64])
def test_nobody_is_named_where_chance_decides_who_is_last(count: int) -> None:
    draw = random.Random(7)

    def work(trace: Trace, step: int) -> None:
        trace.launch(GEMM, 3000 * draw.lognormvariate(0, 0.1))

    found = job(ranks(count, work, steps=4))

    assert found.view.matched
    assert named(found) == []
