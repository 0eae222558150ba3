"""The job's collectives: bytes, bandwidth, and the bandwidth to expect."""

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Ints
from diagnose.diagnosis.postmortem import Traffic
from diagnose.facts import Unknown
from diagnose.formulas.collectives import algorithm_bytes_per_s, bus_bytes_per_s
from diagnose.ranks.collectives.matching import Match
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.network.topology import NO_GPU, Topology
from diagnose.ranks.stragglers.waits import held_up_ns

MOST_ROWS = 40
UPPER_BOUND = "of ranks that did not match: an upper bound of the transfer, waiting included"
SOME_ABSENT = "not all ranks of the group have a trace of these steps: an upper bound of the transfer"
LATENCY_BOUND = "latency-bound: below the size at which half the bandwidth is reached"
MODELLED = "expected by a model: 45 us and 80 % of the links' rate, or what such nodes reach at best"
HIERARCHICAL = "expected by a model: what has to cross each node's boundary, over its network's rate"
UNEVEN_STEPS = "of ranks that count {} to {} steps: per step of a rank"
RATED_BYTES = 64 << 10  # durations of smaller messages do not show bandwidth


class Sample(msgspec.Struct, frozen=True):
    """Collectives alike: nanoseconds of each, and nanoseconds of all ranks together."""

    kind: str
    group: str
    members: tuple[int, ...]
    bytes: int
    matched: bool
    transfer: Ints
    waiting: Ints
    exposed_ns: int
    exposed_waiting_ns: int | None
    absent: int = 0  # ranks of the group without a trace


def traffic_of(ranks: Sequence[RankDigest], matched: Match, topology: Topology) -> tuple[Traffic, ...]:
    """Collectives by kind, group and size, those with most exposed time first.

    Matched ones have the least duration over the ranks as their transfer. Others keep their own durations.
    """
    samples = [*_matched(ranks, matched), *_unmatched(ranks, matched)]
    return tuple(_row(s, ranks, topology) for s in sorted(samples, key=lambda s: -s.exposed_ns)[:MOST_ROWS])


def _matched(ranks: Sequence[RankDigest], matched: Match) -> Iterator[Sample]:
    for group, (exposed, waited) in zip(matched, _exposed(ranks, matched), strict=True):
        calls, rows = ranks[int(group.members[0])].calls, group.call[:, 0]
        transfer, waiting = group.transfer, group.waiting
        for alike in _alike(calls.kind[rows], calls.bytes[rows]):
            yield Sample(
                kind=calls.kinds[int(calls.kind[rows[alike[0]]])],
                group=group.group.name,
                members=tuple(group.members.tolist()),
                bytes=int(calls.bytes[rows[alike[0]]]),
                matched=True,
                transfer=transfer[alike],
                waiting=np.rint(waiting[alike].mean(axis=1)).astype(np.int64),
                exposed_ns=int(exposed[alike].sum()),
                exposed_waiting_ns=None if group.absent else int(waited[alike].sum()),
                absent=group.absent,
            )


def _exposed(ranks: Sequence[RankDigest], matched: Match) -> list[Ints]:
    """For each group the exposed nanoseconds of its collectives and of the waiting in them, shape (2, instances).

    Each rank's exposed time is searched once for all its groups.
    """
    waiting = held_up_ns(ranks, matched)
    sums = [np.zeros((2, len(group.call)), np.int64) for group in matched]
    of_rank: list[list[tuple[int, int]]] = [[] for _ in ranks]
    for number, group in enumerate(matched):
        for m, p in enumerate(group.members.tolist()):
            of_rank[p].append((number, m))
    for rank, places in zip(ranks, of_rank, strict=True):
        if not places:
            continue
        start = [matched[number].start[:, m] for number, m in places]
        end = [matched[number].end[:, m] for number, m in places]
        waited = [since + waiting[number][:, m] for since, (number, m) in zip(start, places, strict=True)]
        pieces = zip(iv.coverages(rank.exposed, start, end), iv.coverages(rank.exposed, start, waited), strict=True)
        for (number, _), parts in zip(places, pieces, strict=True):
            sums[number] += np.stack(parts)
    return sums


def _unmatched(ranks: Sequence[RankDigest], matched: Match) -> Iterator[Sample]:
    """The calls of each rank that no other rank's are known to be the same as."""
    left = [np.ones(len(rank.calls), bool) for rank in ranks]
    for group in matched:
        for m, p in enumerate(group.members.tolist()):
            left[p][group.call[:, m]] = False
    alike: dict[tuple[str, str, int], list[tuple[int, Ints]]] = {}
    for p, rank in enumerate(ranks):
        calls, rows = rank.calls, np.flatnonzero(left[p])
        for same in _alike(calls.kind[rows], calls.bytes[rows], calls.group[rows]):
            row = int(rows[same[0]])
            key = calls.kinds[int(calls.kind[row])], calls.groups[int(calls.group[row])].name, int(calls.bytes[row])
            alike.setdefault(key, []).append((p, rows[same]))
    exposed = [iv.coverage(rank.exposed, rank.calls.start, rank.calls.end) for rank in ranks]
    callers = _callers(ranks)
    for (kind, name, size), parts in alike.items():
        lasted = np.concatenate([ranks[p].calls.end[rows] - ranks[p].calls.start[rows] for p, rows in parts])
        exposed_ns = sum(int(exposed[p][rows].sum()) for p, rows in parts)
        yield Sample(kind, name, tuple(callers[name]), size, False, lasted, 0 * lasted, exposed_ns, None)


def _callers(ranks: Sequence[RankDigest]) -> dict[str, list[int]]:
    """The ranks that call in each group, by its name: all rows of a group are shares of the steps of these."""
    callers: dict[str, list[int]] = {}
    for p, rank in enumerate(ranks):
        names = {rank.calls.groups[number].name for number in np.unique(rank.calls.group).tolist()}
        for name in sorted(names):
            callers.setdefault(name, []).append(p)
    return callers


def _alike(*keys: Ints) -> Iterator[Ints]:
    """The places at which all keys are the same."""
    _, number = np.unique(np.stack(keys), axis=1, return_inverse=True)
    order = np.argsort(number.reshape(-1), kind="stable")
    counts = np.bincount(number.reshape(-1))
    yield from np.split(order, np.cumsum(counts)[:-1]) if len(order) else ()


def _row(sample: Sample, ranks: Sequence[RankDigest], topology: Topology) -> Traffic:
    members = [ranks[p] for p in sample.members]
    transfer, kind = max(int(np.median(sample.transfer)), 1), sample.kind.split(" ")[0]
    size = _size(members, sample) if not sample.matched else len(sample.members) + sample.absent
    steps = [max(rank.steps, 1) for rank in members]
    expected, half, why = _expected(sample, topology, members[0].has_gpu)
    total = max(sum(rank.total_ns for rank in members), 1)
    rated = sample.bytes >= RATED_BYTES and size > 1
    return Traffic(
        kind=kind,
        group=sample.group,
        ranks=size,
        bytes=sample.bytes if sample.bytes > 0 else None,
        count_per_step=len(sample.transfer) * (len(members) if sample.matched else 1) / sum(steps),
        transfer_ns=transfer,
        waiting_ns=int(np.median(sample.waiting)),
        exposed_share=sample.exposed_ns / total,
        exposed_waiting_share=None if sample.exposed_waiting_ns is None else sample.exposed_waiting_ns / total,
        algbw_gbs=algorithm_bytes_per_s(sample.bytes, transfer / 1e9) / 1e9 if rated else None,
        busbw_gbs=bus_bytes_per_s(kind, sample.bytes, transfer / 1e9, size) / 1e9 if rated else None,
        expected_busbw_gbs=expected,
        note="; ".join(filter(None, (
            SOME_ABSENT if sample.absent else "" if sample.matched else UPPER_BOUND,
            LATENCY_BOUND if half and 0 < sample.bytes < half else "",
            why,
            UNEVEN_STEPS.format(min(steps), max(steps)) if min(steps) < max(steps) else "",
        ))),
    )  # fmt: skip


def _size(ranks: Sequence[RankDigest], sample: Sample) -> int:
    """Ranks of the group as the calls state it, else those that were analysed."""
    calls = ranks[0].calls
    numbers = [number for number, group in enumerate(calls.groups) if group.name == sample.group]
    stated = calls.size[np.isin(calls.group, numbers)]
    return int(stated.max()) if len(stated) and stated.max() > 0 else len(ranks)


def _expected(sample: Sample, topology: Topology, has_gpu: bool) -> tuple[float | None, float | None, str]:
    """Bus bandwidth to expect, GB/s; the size that reaches half of the best; and why they are unknown."""
    links = topology.links(sample.members) if has_gpu else NO_GPU
    if not sample.matched or sample.absent or sample.bytes <= 0:
        return None, None, ""
    if isinstance(links, Unknown):
        return None, None, links.because
    expected = links.bus_gbs(sample.kind, sample.bytes)
    how = "" if expected is None or links.is_measured(sample.kind) else MODELLED if links.nodes == 1 else HIERARCHICAL
    return expected, links.half_bandwidth_bytes, how
