"""Bandwidth to expect of a collective by size: short messages pay latency, only long ones reach the links' rate.

Measured points are of all-reduces on eight GPUs behind NVSwitch (nccl-tests as published by ml-engineering). For other
links the α-β model t = α + f·S/B holds, with the share of a link's rate that those boards reach.
"""

import math
from itertools import pairwise

import msgspec

from diagnose.formulas.collectives import bus_bytes_per_s, bus_factor, latency_and_wire_s, transfer_s, wire_bytes

MIB = 1 << 20
HOPPER_NVSWITCH = ((1, 40.0), (16, 220.0), (32, 276.0), (64, 347.0), (256, 436.0), (1024, 464.0))  # MiB, busbw GB/s
HOPPER_RING_GBS, HOPPER_SHARDED_GBS, HOPPER_FEW_GBS = 365.0, 361.0, 363.0
A100_NVSWITCH_GBS = 235.0
LINK_SHARE = 0.8  # 365 of 450 GB/s on H100, 235 of 300 on A100
LATENCY_S = 45e-6  # what the points of 1 and 16 MiB leave above 365 GB/s: 41 and 53 us
NETWORK_LATENCY_S = 60e-6  # an assumption: the same, and some 14 us for the network's hops
FULL_NODE = 8
HOPPER, A100 = "hopper-nvswitch", "a100-nvswitch"  # nodes that were measured


class GroupLinks(msgspec.Struct, frozen=True):
    """The links over which a group of ranks communicates.

    Attributes:
        node: the measured node that this one resembles, HOPPER or A100; "" if none.
        one_way_gbs: rate of a GPU's links inside the node, one direction, GB/s; None if unknown.
        ranks: number of ranks in the group.
        nodes: number of nodes that it spans.
        node_gbs: rate of a node's network, one direction, GB/s; None if unknown.
    """

    node: str
    one_way_gbs: float | None
    ranks: int
    nodes: int = 1
    node_gbs: float | None = None

    def is_measured(self, kind: str) -> bool:
        """Whether points were measured on such a node; what is expected elsewhere is a model."""
        hopper = self.node == HOPPER and kind == "allreduce"
        return hopper and self.nodes == 1 and self.ranks == FULL_NODE

    @property
    def asymptote_gbs(self) -> float | None:
        """Bus bandwidth that messages of any size stay below; None if the links are not known."""
        if self.nodes > 1:
            return self._network_gbs("allreduce")
        if self.node == A100 and self.ranks == FULL_NODE:
            return A100_NVSWITCH_GBS
        if self.is_measured("allreduce"):
            return HOPPER_NVSWITCH[-1][1]
        if self.node == HOPPER:
            return HOPPER_FEW_GBS
        return LINK_SHARE * self.one_way_gbs if self.one_way_gbs else None

    def bus_gbs(self, kind: str, message_bytes: float) -> float | None:
        """Bus bandwidth to expect, GB/s; None if the links are not known.

        Args:
            kind: the kind of collective, as `bus_factor` takes it.
            message_bytes: the full buffer of a sharded collective.
        """
        if self.ranks < 2 or message_bytes <= 0:
            return None
        if self.nodes > 1:
            return self._over_network(kind, message_bytes)
        if self.is_measured(kind):
            return _on_curve(message_bytes)
        limit = HOPPER_SHARDED_GBS if self.node == HOPPER and kind != "allreduce" else self.asymptote_gbs
        if limit is None:
            return None
        seconds = transfer_s(kind, message_bytes, self.ranks, limit * 1e9, LATENCY_S)
        return bus_bytes_per_s(kind, message_bytes, seconds, self.ranks) / 1e9

    def ring_gbs(self, kind: str, message_bytes: float) -> float | None:
        """Bus bandwidth to expect at least, GB/s: between nodes of rings whose slowest hop is a node's whole network.

        The links inside a node may be slower than that. A hierarchical algorithm crosses the boundary of the nodes less
        often; inside a node as `bus_gbs`.
        """
        if self.nodes == 1 or self.ranks < 2 or message_bytes <= 0:
            return self.bus_gbs(kind, message_bytes)
        if self.node_gbs is None:
            return None
        inside = LINK_SHARE * self.one_way_gbs if self.one_way_gbs and self.ranks > self.nodes else math.inf
        slowest = min(self.node_gbs, inside) * 1e9
        seconds = transfer_s(kind, message_bytes, self.ranks, slowest, NETWORK_LATENCY_S)
        return bus_bytes_per_s(kind, message_bytes, seconds, self.ranks) / 1e9

    @property
    def half_bandwidth_bytes(self) -> float | None:
        """Size of an all-reduce that reaches half the asymptote; None if the links are not known."""
        limit = self.asymptote_gbs
        if limit is None or self.ranks < 2:
            return None
        if self.is_measured("allreduce"):
            return _where_curve_reaches(limit / 2)
        latency = NETWORK_LATENCY_S if self.nodes > 1 else LATENCY_S
        return latency * limit * 1e9 / bus_factor("allreduce", self.ranks)

    def _network_gbs(self, kind: str) -> float | None:
        """Bus bandwidth of endless messages when each node sends and receives what a hierarchical algorithm must."""
        if self.node_gbs is None:
            return None
        return self.node_gbs * bus_factor(kind, self.ranks) / bus_factor(kind, self.nodes)

    def _over_network(self, kind: str, message_bytes: float) -> float | None:
        if self.node_gbs is None:
            return None
        crossing = wire_bytes(kind, message_bytes, self.nodes)
        seconds = latency_and_wire_s(NETWORK_LATENCY_S, crossing, self.node_gbs * 1e9)
        return bus_bytes_per_s(kind, message_bytes, seconds, self.ranks) / 1e9


def _on_curve(message_bytes: float) -> float:
    """Bus bandwidth, interpolated over the logarithm of the size; latency alone counts below the first point."""
    first, last = HOPPER_NVSWITCH[0], HOPPER_NVSWITCH[-1]
    size = message_bytes / MIB
    if size <= first[0]:
        return first[1] * size / first[0]
    for (low, slow), (high, fast) in pairwise(HOPPER_NVSWITCH):
        if size <= high:
            return slow + (fast - slow) * math.log(size / low) / math.log(high / low)
    return last[1]


def _where_curve_reaches(gbs: float) -> float:
    for (low, slow), (high, fast) in pairwise(HOPPER_NVSWITCH):
        if slow <= gbs <= fast:
            return float(MIB * low * (high / low) ** ((gbs - slow) / (fast - slow)))
    return float(MIB * HOPPER_NVSWITCH[0][0] * gbs / HOPPER_NVSWITCH[0][1])
