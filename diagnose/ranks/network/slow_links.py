"""Groups whose links are slow: the same collective takes them longer than other groups of the same size."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from diagnose.arrays import Ints
from diagnose.facts import duration
from diagnose.ranks.collectives.kinds import plain_kind
from diagnose.ranks.collectives.matching import Match
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.stragglers.lateness import is_point_to_point

MIN_GROUPS = 2
SLOW = 1.5
COSTLY = 0.01  # of the step
Alike = tuple[str, int, int, int]  # kind, bytes, ranks, nodes that these are on
Typical = tuple[int, float, Ints]  # place of the group in the match, nanoseconds of its transfer, its instances


class SlowLink(msgspec.Struct, frozen=True):
    """A group whose transfers take longer than those of the other groups.

    Attributes:
        members: positions of its ranks in the job.
        because: a sentence with the numbers.
        extra_ns: what its collectives take longer in each step.
        group: its place in the match.
        instances: of the group, those that take longer.
        typical: transfer of the other groups over its own.
        slow_ranks: positions of the ranks that several slow groups have in common, else all members.
    """

    members: tuple[int, ...]
    because: str
    extra_ns: int
    group: int
    instances: Ints
    typical: float
    slow_ranks: tuple[int, ...] = ()


def slow_links(ranks: Sequence[RankDigest], matched: Match, node: Sequence[int] = ()) -> list[SlowLink]:
    """Groups whose typical transfer is 1.5 times that of comparable groups; needs two groups to compare.

    Groups with a rank without a trace are left out: it may be the one that the others wait for.

    With one group a slow link cannot be distinguished from the speed of the whole group, since every rank waits for the
    slowest.

    Args:
        ranks: ranks of the job.
        matched: their collectives by group.
        node: number of each rank's machine, empty if unknown.
    """
    alike: dict[Alike, list[Typical]] = defaultdict(list)
    for number, group in enumerate(matched):
        calls, rows = ranks[int(group.members[0])].calls, group.call[:, 0]
        if group.absent or is_point_to_point(ranks, group):
            continue
        nodes = len({node[p] for p in group.members.tolist()}) if node else 0
        keys = np.stack((calls.kind[rows], calls.bytes[rows]))
        for kind, size in np.unique(keys, axis=1).T.tolist():
            if size < 0 and plain_kind(calls.kinds[kind]) == calls.kinds[kind]:
                continue  # collectives of unknown sizes cannot be compared
            instances = np.flatnonzero((keys[0] == kind) & (keys[1] == size))
            entry = (number, float(np.median(group.transfer[instances])), instances)
            alike[(calls.kinds[kind], size, len(group.members), nodes)].append(entry)
    slow = [_slow(ranks, matched, key, entries) for key, entries in alike.items() if len(entries) >= MIN_GROUPS]
    return _all_with_slow_ranks([link for links in slow for link in links])


def _all_with_slow_ranks(links: Sequence[SlowLink]) -> list[SlowLink]:
    """The links, each with the ranks to blame: one rank's own link is slow in all of its groups.

    The member that most of the slow groups have in common explains these, then the one that most of the others have.
    """
    left = {frozenset(link.members) for link in links}
    common: dict[frozenset[int], tuple[int, ...]] = {}
    while left:
        count = Counter(member for group in left for member in group)
        first, most = min(count.items(), key=lambda each: (-each[1], each[0]))
        if most < MIN_GROUPS:
            break
        explained = [group for group in left if first in group]
        shared = tuple(sorted(frozenset.intersection(*explained)))
        common.update(dict.fromkeys(explained, shared))
        left.difference_update(explained)
    return [_with_slow_ranks(link, common.get(frozenset(link.members)), common) for link in links]


def _with_slow_ranks(
    link: SlowLink, shared: tuple[int, ...] | None, common: Mapping[frozenset[int], tuple[int, ...]]
) -> SlowLink:
    if shared is None:
        return replace(link, slow_ranks=link.members)
    groups = sum(other == shared for other in common.values())
    text = f"{link.because}; {groups} slow groups have {'it' if len(shared) == 1 else 'these ranks'} in common"
    return replace(link, slow_ranks=shared, because=text)


def _slow(ranks: Sequence[RankDigest], matched: Match, key: Alike, entries: list[Typical]) -> list[SlowLink]:
    links = []
    for (number, ns, instances), typical in zip(entries, _medians_of_others([ns for _, ns, _ in entries]), strict=True):
        if typical > 0 and ns >= SLOW * typical:
            members = tuple(matched[number].members.tolist())
            text = (
                f"{key[0]} of its group takes {duration(ns)}, {ns / typical:.1f} times as long as in the other groups"
            )
            steps = max(ranks[members[0]].steps, 1)
            extra_ns = int((ns - typical) * len(instances)) // steps
            links.append(SlowLink(members, text, extra_ns, number, instances, typical / ns))
    return links


def _medians_of_others(values: Sequence[float]) -> list[float]:
    """For each of two or more values the median of all the others."""
    order = np.argsort(values, kind="stable")
    ordered, others = np.array(values)[order], len(values) - 1
    place = np.empty(len(values), np.int64)
    place[order] = np.arange(len(values))
    low, high = (others - 1) // 2, others // 2
    both = (ordered[low + (place <= low)], ordered[high + (place <= high)])
    medians: list[float] = np.mean(both, axis=0).tolist()
    return medians


def costly(ranks: Sequence[RankDigest], links: Sequence[SlowLink]) -> tuple[SlowLink, ...]:
    """The links that cost a step so much that they change who is waited for."""
    step_ns = sum(rank.total_ns for rank in ranks) / max(sum(rank.steps for rank in ranks), 1)
    return tuple(link for link in links if link.extra_ns >= COSTLY * step_ns)


def cost_of(links: Sequence[SlowLink]) -> dict[int, int]:
    """Nanoseconds per step that the slow links of its groups cost each rank, by position."""
    cost: Counter[int] = Counter()
    for link in links:
        cost.update(dict.fromkeys(link.members, link.extra_ns))
    return cost


def extra_of(links: Sequence[SlowLink]) -> dict[int, int]:
    """Nanoseconds per step that a rank's slowest link costs it, by position."""
    extra: dict[int, int] = {}
    for link in links:
        for member in link.slow_ranks:
            extra[member] = max(extra.get(member, 0), link.extra_ns)
    return extra


def passed_to_slow_ranks(caused_ns: Ints, own_ns: Ints, links: Sequence[SlowLink]) -> Ints:
    """The waiting caused by each rank, shape (ranks, steps), moved to the rank whose slow link makes others late.

    The other members of its groups are equally late by it; a member that is later than that by its own doing keeps its
    waiting, and so does each what exceeds the delay by the link for each other rank.
    """
    passed = caused_ns.copy()
    others = len(caused_ns) - 1
    for link in links:
        for member in set(link.members) - set(link.slow_ranks):
            by_link = np.minimum(passed[member], others * link.extra_ns) * (own_ns[member] < link.extra_ns)
            passed[link.slow_ranks[0]] += by_link
            passed[member] -= by_link
    return passed
