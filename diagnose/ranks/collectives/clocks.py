"""How the ranks' clocks stand to each other, by the ends of the collectives that they share; host clocks say nothing.

No rank can end an all-reduce, all-gather, reduce-scatter or all-to-all before all have begun it, and all end it
together but for the last hop. Ranks that share no process group with the first one are reached through others.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from diagnose.arrays import Floats, Ints, Mask
from diagnose.diagnosis.postmortem import Clock, Mismatch
from diagnose.ranks.collectives.matching import GroupMatch, Match
from diagnose.ranks.collectives.process_groups import named_ranks
from diagnose.ranks.digest import RankDigest

LEAST_FOR_RESIDUAL = 3
APART_NS = 5_000_000  # processes of one host share its clock, and translate the device's to it within microseconds
_LEAST_FOR_DRIFT = 12
_BLOCKS = 24
_NO_TIME = 1 << 62
_TO_DEVIATION = 1.4826  # from a median distance, of a normal distribution
_UNIFORM = 12**0.5  # span over standard deviation of times spread evenly


@dataclass(frozen=True)
class Alignment:
    """The clocks of a job's ranks against that of the first; arrays of shape (ranks,).

    Attributes:
        known: ranks that a chain of shared collectives joins to the first.
        offset: nanoseconds to add to a rank's absolute time at its `origin`.
        drift: change of that for each nanosecond, 0 where it cannot be told from none.
        origin: absolute time of the rank's own clock.
        residual: median distance in nanoseconds of the aligned ends, NaN of fewer than three shared collectives.
        drifts: ranks whose drift is seen.
    """

    known: Mask
    offset: Ints
    drift: Floats
    origin: Ints
    residual: Floats
    drifts: Mask

    def aligned(self, members: Ints, times: Ints) -> Ints:
        """Absolute times of the members' own clocks, shape (instances, members), on the first rank's clock."""
        drifted = self.drift[members] * (times - self.origin[members])
        return np.asarray(times + self.offset[members] + np.rint(drifted).astype(np.int64))


@dataclass(frozen=True)
class _Fit:
    """One group's clocks against a reference, arrays of shape (members,)."""

    offset: Ints
    drift: Floats
    origin: Ints
    residual: Floats


def align(ranks: Sequence[RankDigest], found: Match) -> Alignment:
    """The clocks of all ranks that can be joined to the first one, group by group."""
    base, n = bases_of(ranks), len(ranks)
    known = np.arange(n) == 0
    result = Alignment(
        known, np.zeros(n, np.int64), np.zeros(n), base.copy(), np.where(known, 0.0, np.nan), np.zeros(n, bool)
    )
    groups = sorted((g for g in found if g.symmetric.any()), key=lambda g: (-len(g.members), -int(g.symmetric.sum())))
    of_rank: list[list[int]] = [[] for _ in ranks]
    for number, group in enumerate(groups):
        for member in group.members.tolist():
            of_rank[member].append(number)
    waiting, queued = deque(of_rank[0]), set(of_rank[0])
    while waiting:
        group = groups[waiting.popleft()]
        for member in _extend(result, group, base):
            more = [number for number in of_rank[member] if number not in queued]
            waiting.extend(more)
            queued.update(more)
    return result


def bases_of(ranks: Sequence[RankDigest]) -> Ints:
    """Absolute time at time 0 of each rank's trace; 0 where what the trace states is no time."""
    return np.array([rank.base_ns if abs(rank.base_ns) < _NO_TIME else 0 for rank in ranks], np.int64)


def _extend(result: Alignment, group: GroupMatch, base: Ints) -> list[int]:
    """Aligns the group's members that are not yet aligned with those that are; which ones those were."""
    ends = group.end[group.symmetric] + base[group.members]
    seen = result.known[group.members]
    if seen.all():
        return []
    old, new = group.members[seen], group.members[~seen]
    reference = np.sort(result.aligned(old, ends[:, seen]), axis=1)[:, (len(old) - 1) // 2]
    fit = _fitted(reference, ends[:, ~seen])
    inherited = float(np.median(result.residual[old]))
    result.known[new], result.offset[new], result.origin[new] = True, fit.offset, fit.origin
    result.drift[new], result.drifts[new] = fit.drift, fit.drift != 0
    result.residual[new] = np.hypot(fit.residual, inherited)
    return [int(member) for member in new]


def _fitted(reference: Ints, ends: Ints) -> _Fit:
    """Offset, and drift where it is seen, of each column of ends, shape (instances, members), to the reference."""
    distance = reference[:, None] - ends
    offset = np.median(distance - distance[:1], axis=0)
    rest = distance - distance[:1] - offset
    origin = ends[len(ends) // 2]
    drift = _drift(ends - origin, rest)
    rest = rest - drift * (ends - origin)
    shift = np.median(rest, axis=0)
    residual = np.median(np.abs(rest - shift), axis=0)
    own = np.rint(offset + shift).astype(np.int64) + distance[0]
    return _Fit(own, drift, origin, residual if len(ends) >= LEAST_FOR_RESIDUAL else np.full(len(own), np.nan))


def _drift(times: Ints, rest: Floats) -> Floats:
    """Theil and Sen's slope of each column over the medians of blocks; 0 unless it moves the ends far enough.

    Over the window it has to exceed three residuals and three standard errors of a slope.
    """
    if len(times) < _LEAST_FOR_DRIFT:
        return np.zeros(rest.shape[1])
    blocks = np.array_split(np.arange(len(times)), min(_BLOCKS, len(times) // 2))
    x = np.stack([np.median(times[b], axis=0) for b in blocks])
    y = np.stack([np.median(rest[b], axis=0) for b in blocks])
    first, second = np.triu_indices(len(blocks), 1)
    run = x[second] - x[first]
    slope = np.median((y[second] - y[first]) / np.where(run == 0, 1, run), axis=0)
    left = rest - slope * times
    residual = np.median(np.abs(left - np.median(left, axis=0)), axis=0)
    error = _UNIFORM * _TO_DEVIATION * residual / np.sqrt(len(times))
    moved = np.abs(slope) * (times[-1] - times[0])
    return np.where(moved > 3 * np.maximum(np.maximum(residual, error), 1), slope, 0.0)


def clocks_of(ranks: Sequence[RankDigest], alignment: Alignment) -> tuple[Clock, ...]:
    """The alignment as the post-mortem holds it, in the order of the ranks."""
    return tuple(
        Clock(
            rank=rank.rank,
            offset_ns=int(alignment.offset[p]) if alignment.known[p] else None,
            drift_ppm=round(float(alignment.drift[p]) * 1e6, 3) if alignment.drifts[p] else None,
            residual_ns=round(float(alignment.residual[p])) if np.isfinite(alignment.residual[p]) else None,
        )
        for p, rank in enumerate(ranks)
    )


def torn_hosts(ranks: Sequence[RankDigest], alignment: Alignment) -> tuple[Mismatch, ...]:
    """Ranks of one host whose clocks seem far apart: what was taken for the same collective was not the same."""
    of_host: dict[str, list[int]] = {}
    for p, rank in enumerate(ranks):
        if alignment.known[p] and rank.base_ns and rank.host not in ("", "localhost"):
            of_host.setdefault(rank.host, []).append(p)
    return tuple(found for host, own in of_host.items() if (found := _torn(host, own, ranks, alignment)))


def _torn(host: str, own: list[int], ranks: Sequence[RankDigest], alignment: Alignment) -> Mismatch | None:
    usual = int(np.sort(alignment.offset[own])[(len(own) - 1) // 2])
    far = [p for p in own if abs(int(alignment.offset[p]) - usual) > APART_NS]
    if not far:
        return None
    apart = max(abs(int(alignment.offset[p]) - usual) for p in far) / 1e6
    named = tuple(ranks[p].rank for p in far)
    says = (
        f"by the ends of their collectives the clock of {named_ranks(named)} on host {host} is {apart:,.1f} ms off "
        "that of its other ranks: these are not the same collectives"
    )
    return Mismatch(kind="clock", group="", ranks=named, says=says)
