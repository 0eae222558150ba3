"""What collectives carry, how fast, and how fast they should be."""

from collections.abc import Sequence

import pytest
from analysed import GEMM, digest
from kineto import Trace, collective
from msgspec.structs import replace

from diagnose.diagnosis.postmortem import Traffic
from diagnose.facts import Unknown
from diagnose.ranks import RankDigest, match
from diagnose.ranks.network.topology import topology_of
from diagnose.ranks.network.traffic import (
    HIERARCHICAL,
    LATENCY_BOUND,
    MODELLED,
    SOME_ABSENT,
    UNEVEN_STEPS,
    UPPER_BOUND,
    traffic_of,
)

MIB = 1 << 20


def digests(messages: Sequence[tuple[int, float]], count: int = 8, late_us: float = 0) -> list[RankDigest]:
    """Ranks that reduce messages of (bytes, us) in each of four steps; the last rank comes late to the first one."""
    traces = [Trace(rank=r, world=count) for r in range(count)]
    for _ in range(4):
        steps = [trace.step() for trace in traces]
        for step in steps:
            step.__enter__()
        for trace in traces:
            trace.launch(GEMM, 300 + (late_us if trace.rank == count - 1 else 0))
        for size, us in messages:
            collective(traces, "allreduce", size, us, wait=True)
        for trace in traces:
            trace.sync(stream=None)
        for step in steps:
            step.__exit__(None, None, None)
    return [digest(trace, trace.rank) for trace in traces]


def rows(ranks: Sequence[RankDigest], node_gbs: float | None = None) -> list[Traffic]:
    found = match(ranks)
    return list(traffic_of(ranks, () if isinstance(found, Unknown) else found, topology_of(ranks, node_gbs)))


def on_eight_gpus(ranks: Sequence[RankDigest], per_node: int = 8) -> list[RankDigest]:
    return [replace(rank, host=f"node{rank.rank // per_node}") for rank in ranks]


def test_messages_of_one_size_are_a_row_with_the_bandwidth_to_expect() -> None:
    ranks = on_eight_gpus(digests([(64 * MIB, 400), (64 * MIB, 400), (MIB, 50)], late_us=1000))

    large, small = sorted(rows(ranks), key=lambda row: -(row.bytes or 0))

    assert (large.kind, large.ranks, large.bytes, large.count_per_step) == ("allreduce", 8, 64 * MIB, 2)
    assert large.transfer_ns == 400_000, "the late rank does not wait, so its duration is the transfer"
    assert large.busbw_gbs == pytest.approx(2 * 7 / 8 * 64 * MIB / 400e-6 / 1e9)
    assert large.expected_busbw_gbs == pytest.approx(347)
    assert large.note == ""
    assert small.note == LATENCY_BOUND


def test_waiting_is_no_transfer() -> None:
    (row,) = rows(on_eight_gpus(digests([(64 * MIB, 400)], late_us=1000)))

    assert row.waiting_ns == pytest.approx(1e6 * 7 / 8, rel=0.05), "seven of eight ranks wait 1 ms"
    assert row.exposed_share > 0.5


def test_a_group_has_all_its_ranks_though_one_has_no_trace() -> None:
    (row,) = rows(on_eight_gpus(digests([(64 * MIB, 400)], late_us=1000))[:7])

    assert row.ranks == 8
    assert row.transfer_ns == pytest.approx(1.4e6, rel=0.01), "all that are there wait for the one that is not"
    assert row.busbw_gbs == pytest.approx(2 * 7 / 8 * 64 * MIB / row.transfer_ns)
    assert row.note == SOME_ABSENT


def test_rows_of_ranks_with_unequal_steps_add_up() -> None:
    """Of seven steps of the first rank, four are those of the other one."""
    traces = [Trace(rank=rank, world=2) for rank in range(2)]
    for _ in range(4):
        with traces[0].step(), traces[1].step():
            collective(traces, "allreduce", 64 * MIB, 400, wait=True)
            for trace in traces:
                trace.sync(stream=None)
    for _ in range(3):
        with traces[0].step():
            traces[0].collective("allreduce", 64 * MIB, 400, wait=True)
            traces[0].sync(stream=None)
    ranks = [digest(trace, trace.rank) for trace in traces]

    found = rows(ranks)

    exposed_ns = sum(int((rank.exposed[:, 1] - rank.exposed[:, 0]).sum()) for rank in ranks)
    assert [rank.steps for rank in ranks] == [6, 3]
    assert sorted(UPPER_BOUND in row.note for row in found) == [False, True]
    assert sum(row.count_per_step for row in found) == pytest.approx(1)
    assert sum(row.exposed_share for row in found) == pytest.approx(exposed_ns / sum(rank.total_ns for rank in ranks))
    assert all(UNEVEN_STEPS.format(3, 6) in row.note for row in found)


def test_the_rank_that_is_there_alone_gives_an_upper_bound() -> None:
    (row,) = rows(digests([(64 * MIB, 400)], late_us=1000)[:1])

    assert row.transfer_ns == pytest.approx(1.4e6, rel=0.01)
    assert row.ranks == 8
    assert UPPER_BOUND in row.note
    assert row.expected_busbw_gbs is None


def test_ranks_on_two_nodes_need_the_rate_of_the_network() -> None:
    ranks = on_eight_gpus(digests([(64 * MIB, 400)]), per_node=4)

    (unknown,), (known,) = rows(ranks), rows(ranks, node_gbs=100)

    assert unknown.expected_busbw_gbs is None
    assert "the rate of the network between the nodes is not known" in unknown.note
    assert known.expected_busbw_gbs is not None
    assert known.expected_busbw_gbs < 2 * 7 / 8 * 100
    assert HIERARCHICAL in known.note


def test_fewer_ranks_than_the_measured_ones_are_modelled() -> None:
    (row,) = rows([replace(rank, host="node0") for rank in digests([(64 * MIB, 400)], count=4)])

    assert row.expected_busbw_gbs is not None
    assert MODELLED in row.note


def test_without_hosts_the_listed_gpus_tell_the_nodes() -> None:
    ranks = [replace(rank, host="", listed_gpus=4) for rank in digests([(64 * MIB, 400)])]

    assert topology_of(ranks).node == (0, 0, 0, 0, 1, 1, 1, 1)
    assert topology_of([replace(rank, listed_gpus=1) for rank in ranks]).node == ()
