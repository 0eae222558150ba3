"""The machines of the ranks, and the links over which a group of them communicates."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from diagnose.facts import DIAGNOSE_RUN, Unknown, analysis_option, another_run, capture_setting, nothing_helps
from diagnose.formulas.size_curve import GroupLinks
from diagnose.hardware.table import Gpu, named
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.network.ports import Ports

NO_NODES = Unknown("the traces do not say which ranks share a node", DIAGNOSE_RUN)
NO_LINKS = Unknown(
    "the links between these GPUs are not in the table of boards", another_run("compare with nccl-tests")
)
NO_NETWORK = Unknown(
    "the rate of the network between the nodes is not known",
    analysis_option("--network-gbs", capture_setting("diagnose run, which records the ports of each node")),
)
NOT_ALL = Unknown(
    "ranks without a trace may use the same network, so that a group's part of it is not known",
    analysis_option("the traces of all ranks of the job"),
)
NO_GPU = Unknown("the ranks communicate through the host", nothing_helps("no size curve is known for it"))


class Topology(msgspec.Struct, frozen=True):
    """Machines of a job's ranks.

    Attributes:
        node: number of each rank's machine, empty if unknown.
        boards: rows of the table that match the ranks' GPUs; several if a name stands for more than one.
        node_gbs: rate of a node's network, one direction, GB/s; None if unknown.
        is_whole: whether all ranks of the job are among these.
        ports: those of the node with the slowest network, if `node_gbs` is theirs; None if it is stated.
        by_name: whether nodes are known by hosts, rather than by the GPUs that the traces list.
    """

    node: tuple[int, ...]
    boards: tuple[Gpu, ...]
    node_gbs: float | None = None
    is_whole: bool = True
    ports: Ports | None = None
    by_name: bool = False

    @property
    def nodes(self) -> int | None:
        """Machines of the whole job by the names of its hosts; None if not known."""
        return len(set(self.node)) if self.by_name and self.is_whole and len(self.node) > 1 else None

    def links(self, members: Sequence[int]) -> GroupLinks | Unknown:
        """The links between the ranks at these positions; of a node's network, the part of its ranks among them."""
        if not self.boards:
            return NO_LINKS
        if not self.node:
            return NO_NODES
        one_way = {gpu.nvlink_one_way_gbs for gpu in self.boards}
        nodes = len({self.node[p] for p in members})
        if nodes > 1 and self.node_gbs is None:
            return NO_NETWORK
        if nodes > 1 and not self.is_whole:
            return NOT_ALL
        if nodes == 1 and (None in one_way or len(one_way) != 1):
            return NO_LINKS
        like, slowest = self.boards[0].measured_node, min(filter(None, one_way), default=None)
        if slowest is None and self.ports is not None and len(members) > nodes > 1:
            return NO_LINKS  # the hops inside a node may be slower than its ports
        network = self.node_gbs * self._part(members) if self.node_gbs is not None else None
        return GroupLinks(like, slowest, len(members), nodes, network)

    def _part(self, members: Sequence[int]) -> float:
        """Least part of a node's ranks that these are; the others, in groups of their own, use the network as well."""
        there, own = Counter(self.node), Counter(self.node[p] for p in members)
        return min(count / there[node] for node, count in own.items())

    def inside(self, ranks: int) -> GroupLinks | Unknown:
        """The same of so many ranks of one node."""
        first = [p for p, node in enumerate(self.node) if node == self.node[0]]
        return self.links(first[:ranks]) if self.node else NO_NODES


def topology_of(ranks: Sequence[RankDigest], node_gbs: float | None = None) -> Topology:
    """The topology by the hosts' names if all are known, else by consecutive ranks over the GPUs that the traces list.

    Args:
        ranks: ranks of the job.
        node_gbs: stated rate of a node's network, one direction, GB/s; else that of the ports of the slowest node.
    """
    devices = {rank.device for rank in ranks}
    boards = named(devices.pop()) if len(devices) == 1 and ranks[0].has_gpu else ()
    node = _nodes(ranks)
    gbs, ports = (node_gbs, None) if node_gbs is not None else _slowest(ranks, node)
    return Topology(node, boards, gbs, len(ranks) >= _world_size(ranks), ports, all(rank.host for rank in ranks))


def _slowest(ranks: Sequence[RankDigest], node: Sequence[int]) -> tuple[float | None, Ports | None]:
    """Rate of the ports of the node whose carry least, and the ports; None if those of a node are not known."""
    recorded = {n: rank.ports for n, rank in zip(node, ranks, strict=False) if rank.ports is not None}
    if not node or len(recorded) < len(set(node)):
        return None, None
    there = Counter(node)
    slowest = min(recorded, key=lambda n: recorded[n].node_gbs(there[n]))
    return recorded[slowest].node_gbs(there[slowest]), recorded[slowest]


def _world_size(ranks: Sequence[RankDigest]) -> int:
    return max(max(rank.world_size or 0, rank.rank + 1) for rank in ranks)


def _nodes(ranks: Sequence[RankDigest]) -> tuple[int, ...]:
    hosts = [rank.host for rank in ranks]
    if all(hosts):
        number = {host: node for node, host in enumerate(dict.fromkeys(hosts))}
        return tuple(number[host] for host in hosts)
    listed = {rank.listed_gpus for rank in ranks}
    size = _world_size(ranks)
    gpus = listed.pop() if len(listed) == 1 else 0
    if gpus > 1 or size == 1 or gpus >= size:
        return tuple(rank.rank // max(gpus, 1) for rank in ranks)
    return ()
