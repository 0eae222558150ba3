"""Sends match receives, and several collectives may share a kernel."""

from kineto import COMMUNICATION, Trace
from matched_jobs import SEND_RECEIVE, Json, changed, digests, each_step, groups, reduced

from diagnose.ranks import match


def sent(trace: Trace, name: str, peer: int, launches: bool) -> None:
    """`dist.send` or `dist.recv` in the group of all ranks; batched ones launch nothing themselves."""
    key = "Dst Rank" if name == "send" else "Src Rank"
    members = list(range(trace.world))
    args: Json = {"Collective name": name, "In msg nelems": 1 << 20, "Out msg nelems": 1 << 20, "dtype": "BFloat16",
            "Group size": len(members), "Process Group Name": "0", "Process Group Ranks": str(members)}  # fmt: skip
    args[key] = peer
    with trace.inside("record_param_comms", args=args):
        trace.host(5)
        if launches:
            trace.launch(SEND_RECEIVE, 100, COMMUNICATION, **args)


def test_a_pipeline_matches_each_send_with_its_receive() -> None:
    def pipelined(traces: list[Trace]) -> None:
        for stage, trace in enumerate(traces):
            for _ in range(2):
                if stage > 0:
                    sent(trace, "recv", stage - 1, launches=True)
                if stage < 2:
                    sent(trace, "send", stage + 1, launches=True)

    found = match(digests(each_step(3, pipelined)))

    assert groups(found) == {("0", (0, 1)): 6, ("0", (1, 2)): 6}
    assert all(g.paired and not g.symmetric.any() for g in found)  # type: ignore[union-attr]


def test_a_ring_of_batched_sends_matches_neighbours_through_one_kernel() -> None:
    def shifted(traces: list[Trace]) -> None:
        for trace in traces:
            sent(trace, "send", (trace.rank + 1) % 3, launches=False)
            sent(trace, "recv", (trace.rank - 1) % 3, launches=False)
            with trace.annotation("nccl:coalesced"):
                trace.launch(SEND_RECEIVE, 100, COMMUNICATION)

    found = digests(each_step(3, shifted))

    assert [len(d.calls) for d in found] == [3, 3, 3]
    assert groups(match(found)) == {("0", (0, 1)): 3, ("0", (1, 2)): 3, ("0", (2, 0)): 3}


def test_several_collectives_in_one_kernel_are_one_instance() -> None:
    traces = each_step(2, reduced)

    def coalesced(event: Json) -> None:
        if event.get("args", {}).get("Collective name"):
            event["args"] |= {"Collective name": "allreduce_coalesced"}
            event["args"].pop("In msg nelems")
            event["args"].pop("Out msg nelems")

    found = digests([changed(trace, coalesced) for trace in traces])

    assert (found[0].calls.kinds, set(found[0].calls.bytes.tolist())) == (("allreduce",), {-1})
    assert groups(match(found)) == {("0", (0, 1)): 3}
