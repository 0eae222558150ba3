"""Which collectives of several ranks are one: by process group and Seq, by order, or between two ranks."""

import re

import pytest
from analysed import GEMM, MS, US, content
from kineto import COMMUNICATION, Trace
from matched_jobs import FIELDS, SEND_RECEIVE, Json, changed, digests, each_step, groups, reduced, without

from diagnose.facts import Unknown
from diagnose.ranks import match
from diagnose.ranks.collectives.mismatches import mismatches_of
from diagnose.ranks.collectives.process_groups import Naming, ProcessGroup
from diagnose.timeline.kernel_names import collective_kind


def bare(event: Json) -> None:
    """Takes every field of a collective from a kernel, and its name too, as RCCL does."""
    if event.get("cat") == "kernel":
        event["args"] = {k: v for k, v in event["args"].items() if not FIELDS.search(k)}
        event["name"] = re.sub(r"ncclDevKernel_\w+", "ncclDevKernel_Generic", event["name"])


def test_groups_of_one_name_on_different_ranks_are_not_one_group() -> None:
    def tensor_parallel(traces: list[Trace]) -> None:
        reduced(traces[:2], late=0, group="1", ranks=[0, 1])
        reduced(traces[2:], group="1", ranks=[2, 3])

    found = match(digests(each_step(4, tensor_parallel)))

    assert groups(found) == {("1", (0, 1)): 3, ("1", (2, 3)): 3}
    waiting = {g.group.ranks: g.waiting.max() for g in found}  # type: ignore[union-attr]
    assert waiting[(0, 1)] > 4.9 * MS
    assert waiting[(2, 3)] < 0.1 * MS


def test_groups_whose_ranks_nobody_lists_are_not_matched_by_name() -> None:
    traces = each_step(4, lambda traces: [reduced(traces[i : i + 2], group="1", ranks=[i, i + 1]) for i in (0, 2)])

    found = match(digests([changed(t, without("Process Group Ranks")) for t in traces]))

    assert isinstance(found, Unknown)
    assert "share one name" in found.because


def test_a_rank_that_lists_no_group_joins_the_one_that_lists_it() -> None:
    first, *others = (content(trace) for trace in each_step(3, reduced))
    changed(first, without("Process Group Ranks"))
    del first["distributedInfo"]

    assert groups(match(digests([first, *others]))) == {("0", (0, 1, 2)): 3}


@pytest.mark.parametrize(
    ("text", "size", "ranks"),
    [
        ("[0, 2, 4]", 3, (0, 2, 4)),
        (f"[{', '.join(map(str, range(0, 60, 2)))}, ...]", 64, tuple(range(0, 128, 2))),
        (f"[{', '.join(map(str, [*range(29), 50]))}, ...]", 64, ()),
    ],
)
def test_a_list_of_ranks_that_was_cut_goes_on_as_it_began(text: str, size: int, ranks: tuple[int, ...]) -> None:
    assert Naming({}, {}, 128).named("7", text, size) == ProcessGroup("7", ranks, ambiguous=not ranks)


def test_where_only_some_ranks_have_seq_order_decides() -> None:
    first, *others = each_step(3, reduced)

    found = match(digests([changed(first, without("Seq")), *others]))

    assert groups(found) == {("0", (0, 1, 2)): 3}


@pytest.mark.parametrize("seq", [True, False])
def test_captures_that_start_at_different_steps_match_where_they_overlap(seq: bool) -> None:
    traces = [content(trace) for trace in each_step(2, reduced, steps=8)]
    for trace, kept in zip(traces, (range(10, 15), range(13, 18)), strict=True):
        begin, end = (step_time(trace, n) for n in (kept[0], kept[-1] + 1))
        trace["traceEvents"] = [e for e in trace["traceEvents"] if e["ph"] != "X" or begin <= e["ts"] < end]
        changed(trace, without("" if seq else "Seq"))

    found = digests(traces)

    assert [d.numbers for d in found] == [(11, 12, 13, 14), (14, 15, 16, 17)]
    assert groups(match(found)) == {("0", (0, 1)): 1}


def step_time(trace: Json, number: int) -> float:
    marks = {e["name"]: e["ts"] for e in trace["traceEvents"] if e.get("cat") == "user_annotation"}
    return float(marks.get(f"ProfilerStep#{number}", float("inf")))


def test_disjoint_captures_say_so() -> None:
    early, late = Trace(rank=0, world=2, first_step=10), Trace(rank=1, world=2, first_step=50)
    for trace in (early, late):
        for _ in range(3):
            with trace.step():
                trace.collective("allreduce", 1 << 20, 100)

    found = match(digests([changed(trace, without("Seq")) for trace in (early, late)]))

    assert isinstance(found, Unknown)
    assert "different steps" in found.because


def test_kernels_without_fields_take_those_of_the_record_that_launched_them() -> None:
    traces = each_step(2, lambda traces: reduced(traces, late=1, group="3", ranks=[0, 1]))

    found = digests([changed(trace, bare) for trace in traces])

    assert {(found[0].calls.kinds, found[0].calls.groups)} == {(("allreduce",), (ProcessGroup("3", (0, 1)),))}
    assert found[0].calls.bytes.tolist() == [1 << 22] * 3
    assert groups(match(found)) == {("3", (0, 1)): 3}


def test_without_any_fields_the_annotation_tells_an_all_to_all_from_sends() -> None:
    def exchanged(traces: list[Trace]) -> None:
        for trace in traces:
            with trace.annotation("nccl:all_to_all"):
                trace.launch(SEND_RECEIVE, 100, COMMUNICATION)

    found = digests([changed(trace, without("Seq")) for trace in each_step(2, exchanged)])

    assert found[0].calls.kinds == ("alltoall",)
    assert groups(match(found)) == {("0", (0, 1)): 3}


def test_a_kernel_that_lost_its_fields_on_one_rank_still_matches() -> None:
    first, second = (content(trace) for trace in each_step(2, reduced))
    lost = next(e for e in first["traceEvents"][::-1] if "Seq" in e.get("args", {}) and e["cat"] == "kernel")
    bare(lost)
    changed(first, without("Collective name", of="cpu_op"))

    found = digests([first, second])

    assert groups(match(found)) == {("0", (0, 1)): 3}
    assert mismatches_of(found) == ()


def test_sends_that_nothing_describes_are_not_matched() -> None:
    traces = each_step(2, lambda traces: [trace.launch(SEND_RECEIVE, 100, COMMUNICATION) for trace in traces])

    assert isinstance(match(digests(traces)), Unknown)


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "allreduce"),
        ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", "generic"),
        ("ncclSymkDevKernel_AllGather_LLMC(ncclSymkDevWorkArgs)", "allgather"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)", "sendrecv"),
        ("multimem_all_reduce_kernel<c10::BFloat16, 16>", "allreduce"),
        ("two_shot_all_reduce_kernel<c10::BFloat16, 16>", "allreduce"),
        ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)", "allreduce"),
        ("void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*)", "dispatch"),
        ("void deep_ep::internode_ll::combine<true, 7168, 9>(void*)", "combine"),
        ("void deep_ep::intranode::notify_dispatch<8>(int const*)", "notifydispatch"),
        ("gloo:all_reduce", "allreduce"),
        ("_reduce_scatter_base", "reducescatter"),
        ("allreduce_coalesced", "allreduce"),
        ("recv", "sendrecv"),
        ("coalesced", "collective"),
    ],
)
def test_kinds_by_name(kernel: str, kind: str) -> None:
    assert collective_kind(kernel) == kind


@pytest.mark.parametrize("kernel", ["void deep_ep::intranode::dispatch<8>(int4*)", "multimem_all_reduce_kernel<float>"])
def test_kernels_outside_of_process_groups_match_where_there_is_only_one_group(kernel: str) -> None:
    traces = each_step(2, lambda traces: [trace.launch(kernel, 100, COMMUNICATION) for trace in traces])

    assert groups(match(digests(traces))) == {("", (0, 1)): 3}


@pytest.mark.parametrize(
    ("description", "known"), [("mesh_ep", True), ("EXPERT_MODEL_PARALLEL_GROUP", True), ("tp", False)]
)
def test_experts_dispatch_within_the_group_described_as_theirs(description: str, known: bool) -> None:
    kernel = "void deep_ep::intranode::dispatch<8>(int4*)"
    traces = each_step(4, lambda traces: [trace.launch(kernel, 100, COMMUNICATION) for trace in traces])
    jsons = [content(trace) for trace in traces]
    for rank, trace in enumerate(jsons):
        own = {"pg_name": "1", "pg_desc": description, "ranks": [rank // 2 * 2, rank // 2 * 2 + 1]}
        trace["distributedInfo"]["pg_config"].append(own)

    found = match(digests(jsons))

    assert isinstance(found, Unknown) != known
    if known:
        assert groups(found) == {("", (0, 1)): 3, ("", (2, 3)): 3}


def test_gloo_matches_by_order_and_shape() -> None:
    traces = [Trace(gpu=None, rank=r, world=2, backend="gloo") for r in range(2)]
    for trace in traces:
        for _ in range(4):
            with trace.step():
                trace.cpu_op("aten::mm", 500 * (1 + trace.rank))
                trace.cpu_op("gloo:all_reduce", 300, [[1024]])
                trace.cpu_op("gloo:all_reduce", 100, [[64]])

    found = match(digests(traces))

    assert groups(found) == {("", (0, 1)): 6}
    assert found[0].duration[:2, 0].tolist() == [300 * US, 100 * US]  # type: ignore[index]


def test_a_collective_belongs_to_the_step_that_launched_it() -> None:
    slow, fast = (Trace(rank=r, world=2) for r in range(2))
    for trace, us in ((slow, 3000), (fast, 10)):
        for _ in range(4):
            with trace.step():
                trace.launch(GEMM, us)
                trace.launch(GEMM, 10, COMMUNICATION)
                trace.collective("allreduce", 1 << 20, 10)

    found = digests([changed(trace, without("Seq")) for trace in (slow, fast)])

    assert [d.calls.step.tolist() for d in found] == [[11, 12, 13], [11, 12, 13]]


def test_members_without_a_trace_are_counted() -> None:
    traces = each_step(4, reduced)

    (group,) = match(digests(traces[:3]))  # type: ignore[misc]

    assert (len(group.members), group.absent) == (3, 1)
