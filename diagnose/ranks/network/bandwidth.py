"""Bandwidth of large messages between the ranks, without waiting."""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from diagnose.facts import Unknown, analysis_option, another_run, capture_setting, nothing_helps, spoken
from diagnose.formulas.collectives import bus_bytes_per_s
from diagnose.formulas.size_curve import GroupLinks
from diagnose.ranks.collectives.kinds import SEND_RECEIVE
from diagnose.ranks.collectives.matching import GroupMatch, Match
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.network.slow_links import SLOW
from diagnose.ranks.network.topology import NO_NETWORK, Topology

LARGE_BYTES = 16 << 20  # from here on bandwidth outweighs latency (nccl-tests: half of the asymptote on NVLink)
UNDISTURBED = 90  # percentile: other messages share the links or the multiprocessors with kernels
NO_SIZES = Unknown("no collective of 16 MiB or more carries its size", capture_setting("torch 2.3 or later"))


INSIDE_NODES = Unknown(
    "no collective of 16 MiB or more that carries its size spans nodes", another_run("capture more of the step")
)
NO_GPUS = Unknown("the collectives did not run on GPUs", nothing_helps("the ranks communicate through the host"))


class Reached(msgspec.Struct, frozen=True):
    """Bus bandwidth of the large messages of one group, measured and expected of its links at these sizes, bytes/s.

    `groups` are the process groups of as many ranks on as many nodes, itself included. `between_nodes` is whether they
    span several.
    """

    measured: float
    expected: float
    groups: int
    between_nodes: bool = False


class _Large(msgspec.Struct, frozen=True):
    """The large messages of a group: kind, bytes, ranks, nanoseconds of transfer."""

    group: GroupMatch
    messages: tuple[tuple[str, int, int, int], ...]

    @property
    def is_point_to_point(self) -> bool:
        """Whether they are messages between two ranks."""
        return self.group.paired or any(kind.startswith(SEND_RECEIVE) for kind, *_ in self.messages)

    @property
    def rates(self) -> list[float]:
        """Bus bandwidth of each, bytes/s."""
        return [bus_bytes_per_s(kind, size, ns / 1e9, ranks) for kind, size, ranks, ns in self.messages]


def bus_rate(ranks: Sequence[RankDigest], matched: Match) -> float | Unknown:
    """Bus bandwidth, bytes/s, that the best of the large messages reach; one with no more than its transfer time."""
    if not ranks[0].has_gpu:
        return NO_GPUS
    rates = [rate for large in _large(ranks, matched) for rate in large.rates]
    return float(np.percentile(rates, UNDISTURBED)) if rates else NO_SIZES


def reached(ranks: Sequence[RankDigest], matched: Match, topology: Topology) -> Reached | Unknown:
    """Measured and expected bandwidth of the best large collectives, in the group whose large ones take longest.

    In a job of several nodes, only groups that span several count. Messages between two ranks are left out: they use
    one card of a node's.
    """
    if not ranks[0].has_gpu:
        return NO_GPUS
    several = len(set(topology.node)) > 1
    groups = [large for large in _large(ranks, matched) if not large.group.absent and not large.is_point_to_point]
    groups = [large for large in groups if not several or _place(large, topology)[1] > 1]
    if not groups:
        return INSIDE_NODES if several else NO_SIZES
    longest = max(groups, key=lambda large: sum(ns for *_, ns in large.messages))
    links = topology.links(longest.group.members.tolist())
    if isinstance(links, Unknown):
        return _unstated(longest) if links is NO_NETWORK else links
    rated = _rated(longest, links)
    if rated is None:
        return NO_SIZES
    like = [_rated(large, links) for large in groups if _place(large, topology) == _place(longest, topology)]
    slow = [own for own in like if own and own[0] / own[1] < SLOW * rated[0] / rated[1]]
    return Reached(*rated, len(slow), links.nodes > 1)


def _unstated(large: _Large) -> Unknown:
    rate = spoken(float(np.percentile(large.rates, UNDISTURBED)), "bytes_per_s")
    why = f"large messages move {rate}, and what the network between the nodes does is neither stated nor recorded"
    return Unknown(
        f"{why}: slow is not told from as fast as it can be",
        analysis_option("--network-gbs", another_run("run nccl-tests between pairs of nodes")),
    )


def _rated(large: _Large, links: GroupLinks) -> tuple[float, float] | None:
    """Measured and expected rate of the message at the ninetieth percentile of their ratio."""
    expected = [links.ring_gbs(kind, size) for kind, size, *_ in large.messages]
    pairs = [(rate, 1e9 * gbs) for rate, gbs in zip(large.rates, expected, strict=True) if gbs]
    pairs.sort(key=lambda pair: pair[0] / pair[1])
    return pairs[(len(pairs) - 1) * UNDISTURBED // 100] if pairs else None


def _place(large: _Large, topology: Topology) -> tuple[int, int]:
    """Ranks of the group, and the nodes that they are on."""
    members = large.group.members.tolist()
    return len(members), len({topology.node[p] for p in members})


def _large(ranks: Sequence[RankDigest], matched: Match) -> Iterator[_Large]:
    for group in matched:
        calls, rows = ranks[int(group.members[0])].calls, group.call[:, 0]
        messages = tuple(
            (calls.kinds[int(calls.kind[row])], int(calls.bytes[row]), int(calls.size[row]), ns)
            for row, ns in zip(rows.tolist(), group.transfer.tolist(), strict=True)
            if calls.bytes[row] >= LARGE_BYTES and calls.size[row] > 1 and ns > 0
        )
        if messages:
            yield _Large(group, messages)
