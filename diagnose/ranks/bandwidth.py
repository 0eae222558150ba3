"""How fast large messages travel between the ranks, once waiting is taken out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from diagnose.facts import Unknown, spoken
from diagnose.formulas.collectives import bus_bytes_per_s
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.match import GroupMatch, Match
from diagnose.ranks.topology import NO_NETWORK, Topology

LARGE_BYTES = 16 << 20  # from here on bandwidth outweighs latency (nccl-tests: half of the asymptote on NVLink)
UNDISTURBED = 90  # percentile: other messages share the links or the multiprocessors with kernels
NO_SIZES = Unknown("no collective of 16 MiB or more carries its size", "capture with torch 2.3 or later")


NO_GPUS = Unknown("the collectives did not run on GPUs", "nothing: the ranks communicate through the host")


@dataclass(frozen=True)
class Reached:
    """Bus bandwidth of the large messages of one group beside what its links do at these sizes, bytes/s.

    `groups` are the process groups of as many ranks on as many nodes, itself included.
    """

    measured: float
    expected: float
    groups: int


@dataclass(frozen=True)
class _Large:
    """The large messages of a group: kind, bytes, ranks, nanoseconds of transfer."""

    group: GroupMatch
    messages: tuple[tuple[str, int, int, int], ...]

    @property
    def rates(self) -> list[float]:
        return [bus_bytes_per_s(kind, size, ns / 1e9, ranks) for kind, size, ranks, ns in self.messages]


def bus_rate(ranks: Sequence[RankDigest], found: Match) -> float | Unknown:
    """Bus bandwidth, bytes/s, that the best of the large messages reach; one with no more than its transfer time."""
    if not ranks[0].has_gpu:
        return NO_GPUS
    rates = [rate for large in _large(ranks, found) for rate in large.rates]
    return float(np.percentile(rates, UNDISTURBED)) if rates else NO_SIZES


def reached(ranks: Sequence[RankDigest], found: Match, topology: Topology) -> Reached | Unknown:
    """What the best large messages reach of what their links do, in the group whose large messages take longest."""
    if not ranks[0].has_gpu:
        return NO_GPUS
    groups = [large for large in _large(ranks, found) if not large.group.absent]
    if not groups:
        return NO_SIZES
    longest = max(groups, key=lambda large: sum(ns for *_, ns in large.messages))
    members = longest.group.members.tolist()
    links = topology.links(members)
    if links is NO_NETWORK:
        rate = spoken(float(np.percentile(longest.rates, UNDISTURBED)), "bytes_per_s")
        return Unknown(
            f"large messages move {rate}, and the rate of the network between the nodes is not known: neither is "
            "whether it, or one link, is slow",
            "pass --network-gbs, or run nccl-tests between pairs of nodes",
        )
    if isinstance(links, Unknown):
        return links
    both = [(r, 1e9 * (links.ring_gbs(m[0], m[1]) or 0)) for r, m in zip(longest.rates, longest.messages, strict=True)]
    pairs = sorted((pair for pair in both if pair[1]), key=lambda pair: pair[0] / pair[1])
    if not pairs:
        return NO_SIZES
    measured, expected = pairs[(len(pairs) - 1) * UNDISTURBED // 100]
    return Reached(measured, expected, sum(_place(large, topology) == _place(longest, topology) for large in groups))


def _place(large: _Large, topology: Topology) -> tuple[int, int]:
    """Ranks of the group, and the nodes that they are on."""
    members = large.group.members.tolist()
    return len(members), len({topology.node[p] for p in members})


def _large(ranks: Sequence[RankDigest], found: Match) -> Iterator[_Large]:
    for group in found:
        calls, rows = ranks[int(group.members[0])].calls, group.call[:, 0]
        messages = tuple(
            (calls.kinds[int(calls.kind[row])], int(calls.bytes[row]), int(calls.size[row]), ns)
            for row, ns in zip(rows.tolist(), group.transfer.tolist(), strict=True)
            if calls.bytes[row] >= LARGE_BYTES and calls.size[row] > 1 and ns > 0
        )
        if messages:
            yield _Large(group, messages)
