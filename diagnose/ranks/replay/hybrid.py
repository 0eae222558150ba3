"""FSDP over nodes against HSDP in the joint replay: shards inside a node, one reduction of them between nodes."""

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from diagnose.facts import Unknown
from diagnose.formulas.collectives import bus_bytes_per_s, nic_rate, transfer_s
from diagnose.formulas.size_curve import NETWORK_LATENCY_S, GroupLinks
from diagnose.ranks.collectives.matching import GroupMatch, Match
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.network.topology import Topology
from diagnose.ranks.replay.buckets import BUCKET_BYTES, described
from diagnose.ranks.replay.joint import Joint
from diagnose.ranks.replay.rounds import Case

REACHED: dict[Case, float] = {"worst": 0.6, "best": 1.0}  # of the bandwidth expected inside a node


class Hybrid(msgspec.Struct, frozen=True):
    """Collectives that cross nodes and would not: numbers of the joint replay, with kind and bytes of each."""

    collective: tuple[int, ...]
    kind: tuple[str, ...]
    bytes: tuple[int, ...]
    links: GroupLinks
    nodes: int

    def applied(self, joint: Joint, case: Case) -> Joint:
        """The job with its parameters sharded inside a node."""
        transfer = joint.transfer.copy()
        for number, kind, size in zip(self.collective, self.kind, self.bytes, strict=True):
            transfer[number] = self._ns(kind, size, joint.transfer[number], case)
        return joint.with_transfer(transfer)

    def _ns(self, kind: str, size: int, now_ns: float, case: Case) -> float:
        """Inside the node; a reduce-scatter is followed by an all-reduce of each GPU's shard between the nodes."""
        gpus, count = self.links.ranks, self.links.ranks * self.nodes
        rate = REACHED[case] * (self.links.bus_gbs(kind, size) or 0) * 1e9
        seconds = transfer_s(kind, size, gpus, rate)
        if kind == "reducescatter":
            network = nic_rate(bus_bytes_per_s(kind, size, now_ns / 1e9, count), self.nodes, count)
            seconds += transfer_s("allreduce", size / gpus, self.nodes, network, NETWORK_LATENCY_S)
        return seconds * 1e9


def hybrid_of(ranks: Sequence[RankDigest], matched: Match, joint: Joint, topology: Topology) -> Hybrid | None:
    """The effect of HSDP; None if nothing is sharded over equal nodes, or the links inside a node are not known."""
    on_node = Counter(topology.node)
    nodes, sizes = len(on_node), set(on_node.values())
    if nodes < 2 or len(sizes) != 1 or sizes == {1}:
        return None
    links = topology.inside(sizes.pop())
    if isinstance(links, Unknown) or links.bus_gbs("allgather", BUCKET_BYTES) is None:
        return None
    whole = [group for group in matched if len(group.members) == len(topology.node)]
    rows = [row for group in whole for row in _sharded(ranks, group, joint)]
    if not rows:
        return None
    collective, kind, size = zip(*rows, strict=True)
    return Hybrid(collective, kind, size, links, nodes)


def _sharded(ranks: Sequence[RankDigest], group: GroupMatch, joint: Joint) -> list[tuple[int, str, int]]:
    """The group's large all-gathers and reduce-scatters: number, kind and bytes."""
    first = int(group.members[0])
    kinds, sizes = described(ranks[first], joint.work[first])
    of_group = np.isin(joint.work[first].row, group.call[:, 0])
    large = np.flatnonzero(of_group & np.isin(kinds, ("allgather", "reducescatter")) & (sizes >= BUCKET_BYTES))
    of = joint.collective[first]
    return [(int(of[e]), str(kinds[e]), int(sizes[e])) for e in large.tolist() if joint.transfer[of[e]] > 0]
