"""Align the ranks' clocks by the ends of the collectives that they share; host clocks are not reliable enough.

No rank can end an all-reduce, all-gather, reduce-scatter or all-to-all before all have begun it, and all end it
together except for the last hop. Ranks that share no process group with the first one are reached through others.
"""

from collections import deque
from collections.abc import Sequence

import msgspec
import numpy as np

from diagnose.arrays import Floats, Ints, Mask
from diagnose.diagnosis.postmortem import Clock, Mismatch
from diagnose.formulas.statistics import NORMAL_SPREAD, median_distances
from diagnose.ranks.collectives.matching import GroupMatch, Match
from diagnose.ranks.collectives.process_groups import named_ranks
from diagnose.ranks.digest import RankDigest

LEAST_FOR_RESIDUAL = 3
APART_NS = 5_000_000  # processes of one host share its clock, and translate the device's to it within microseconds
_LEAST_FOR_DRIFT = 12
_BLOCKS = 24
_NO_TIME = 1 << 62
_UNIFORM = 12**0.5  # span over standard deviation of times spread evenly


class Alignment(msgspec.Struct, frozen=True):
    """The clocks of a job's ranks relative to the first rank's; arrays of shape (ranks,).

    Attributes:
        known: ranks that a chain of shared collectives joins to the first.
        offset: nanoseconds to add to a rank's absolute time at its `origin`.
        drift: change of the offset per nanosecond, 0 if it is not significant.
        origin: absolute time of the rank's own clock.
        residual: median distance in nanoseconds of the aligned ends, NaN for fewer than three shared collectives.
        drifts: ranks with a significant drift.
    """

    known: Mask
    offset: Ints
    drift: Floats
    origin: Ints
    residual: Floats
    drifts: Mask

    def aligned(self, members: Ints | int, times: Ints) -> Ints:
        """Absolute times of the members' own clocks on the first rank's, shape (instances, members); of one a row."""
        drifted = self.drift[members] * (times - self.origin[members])
        return np.asarray(times + self.offset[members] + np.rint(drifted).astype(np.int64))


class _Fit(msgspec.Struct, frozen=True):
    """One group's clocks against a reference, arrays of shape (members,)."""

    offset: Ints
    drift: Floats
    origin: Ints
    residual: Floats


def align(ranks: Sequence[RankDigest], matched: Match) -> Alignment:
    """The clocks of all ranks that symmetric collectives join to the first one, group by group.

    From the first rank outwards (breadth first, the largest groups first): a group sets the clocks of its members that
    are not set yet by those that are, so that each clock is a sum of the fewest measured offsets.
    """
    base, n = bases_of(ranks), len(ranks)
    known = np.arange(n) == 0
    alignment = Alignment(
        known, np.zeros(n, np.int64), np.zeros(n), base.copy(), np.where(known, 0.0, np.nan), np.zeros(n, bool)
    )
    _ByGroups(alignment, base, [group for group in matched if group.symmetric.any()]).begin_at(0)
    return alignment


def align_all(ranks: Sequence[RankDigest], matched: Match) -> Alignment:
    """Like `align`, then align the other ranks by anything that they share; good for an order, not for residuals.

    A broadcast or a send may end on one rank before another: that sets a clock to within its duration. A rank that
    nothing joins to the first is assumed to begin its trace with it, and sets the clocks of those it is joined with.
    """
    alignment, base = align(ranks, matched), bases_of(ranks)
    by_groups = _ByGroups(alignment, base, [group for group in matched if len(group.call)])
    for rank in np.argsort(~alignment.known, kind="stable").tolist():
        if not alignment.known[rank]:
            alignment.known[rank], alignment.offset[rank] = True, base[0] - base[rank]
        by_groups.begin_at(rank)
    return alignment


class _ByGroups:
    """Clocks set from rank to rank along the groups, each of which is used once."""

    def __init__(self, alignment: Alignment, base: Ints, groups: Sequence[GroupMatch]) -> None:
        self.alignment, self.base = alignment, base
        self.groups = sorted(groups, key=lambda g: (-len(g.members), -int(g.symmetric.sum())))
        self._used: set[int] = set()
        self._of_rank: list[list[int]] = [[] for _ in base]
        for number, group in enumerate(self.groups):
            for member in group.members.tolist():
                self._of_rank[member].append(number)

    def begin_at(self, rank: int) -> None:
        """Sets the clocks of all ranks that are joined to this one, whose own is set."""
        waiting = deque(self._unused_of(rank))
        while waiting:
            for member in _extend(self.alignment, self.groups[waiting.popleft()], self.base):
                waiting.extend(self._unused_of(member))

    def _unused_of(self, rank: int) -> list[int]:
        """The groups of a rank that are not used yet, which they are from here on."""
        numbers = [number for number in self._of_rank[rank] if number not in self._used]
        self._used.update(numbers)
        return numbers


def bases_of(ranks: Sequence[RankDigest]) -> Ints:
    """Absolute time at time 0 of each rank's trace; 0 if the stated time is implausible."""
    return np.array([rank.base_ns if abs(rank.base_ns) < _NO_TIME else 0 for rank in ranks], np.int64)


def _extend(alignment: Alignment, group: GroupMatch, base: Ints) -> list[int]:
    """Align the group's members that are not yet aligned with those that are; return the newly aligned ones.

    It uses the group's symmetric collectives if there are any. The reference is the middle one of the aligned members'
    ends.
    """
    telling = group.symmetric if group.symmetric.any() else np.ones(len(group.call), bool)
    ends = group.end[telling] + base[group.members]
    known = alignment.known[group.members]
    if known.all():
        return []
    old, new = group.members[known], group.members[~known]
    reference = np.sort(alignment.aligned(old, ends[:, known]), axis=1)[:, (len(old) - 1) // 2]
    fit = _fitted(reference, ends[:, ~known])
    inherited = float(np.median(alignment.residual[old]))
    alignment.known[new], alignment.offset[new], alignment.origin[new] = True, fit.offset, fit.origin
    alignment.drift[new], alignment.drifts[new] = fit.drift, fit.drift != 0
    alignment.residual[new] = np.hypot(fit.residual, inherited)
    return [int(member) for member in new]


def _fitted(reference: Ints, ends: Ints) -> _Fit:
    """Offset, and drift if significant, of each column of ends, shape (instances, members), to the reference.

    It uses medians, because a rank that leaves a collective late errs to one side only and at times by much. The rest
    after subtracting the first distance is small enough for floats to hold each nanosecond.
    """
    distance = reference[:, None] - ends
    offset = np.median(distance - distance[:1], axis=0)
    rest = distance - distance[:1] - offset
    origin = ends[len(ends) // 2]
    drift = _drift(ends - origin, rest)
    rest = rest - drift * (ends - origin)
    shift = np.median(rest, axis=0)
    residual = median_distances(rest)
    whole = np.rint(offset + shift).astype(np.int64) + distance[0]
    return _Fit(whole, drift, origin, residual if len(ends) >= LEAST_FOR_RESIDUAL else np.full(len(whole), np.nan))


def _drift(times: Ints, rest: Floats) -> Floats:
    """Theil and Sen's slope of each column over the medians of blocks; 0 unless it moves the ends far enough.

    The slope is the median of those between all pairs of blocks (Sen, 1968), which up to 29 % of outlying blocks do
    not move; blocks bound the number of pairs. Over the window it has to exceed three residuals and three standard
    errors of a slope.
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
    residual = median_distances(left)
    error = _UNIFORM * NORMAL_SPREAD * residual / np.sqrt(len(times))
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


def torn_hosts(ranks: Sequence[RankDigest], matched: Match, alignment: Alignment) -> tuple[Mismatch, ...]:
    """Ranks of one host whose clocks seem far apart: what was taken for the same collective was not the same.

    A rank that lacks a core leaves each collective late, and its clock seems apart by that too. But it began it before
    any other rank ended it.
    """
    of_host: dict[str, list[int]] = {}
    for p, rank in enumerate(ranks):
        if alignment.known[p] and rank.base_ns and rank.host not in ("", "localhost"):
            of_host.setdefault(rank.host, []).append(p)
    torn = (_torn(host, positions, ranks, matched, alignment) for host, positions in of_host.items())
    return tuple(mismatch for mismatch in torn if mismatch)


def _torn(
    host: str, positions: list[int], ranks: Sequence[RankDigest], matched: Match, alignment: Alignment
) -> Mismatch | None:
    usual = int(np.sort(alignment.offset[positions])[(len(positions) - 1) // 2])
    far = [p for p in positions if abs(int(alignment.offset[p]) - usual) > APART_NS]
    far = [p for p in far if _never_met(p, positions, ranks, matched)]
    if not far:
        return None
    apart = max(abs(int(alignment.offset[p]) - usual) for p in far) / 1e6
    named = tuple(ranks[p].rank for p in far)
    says = (
        f"by the ends of their collectives the clock of {named_ranks(named)} on host {host} is {apart:,.1f} ms off "
        "that of its other ranks: these are not the same collectives"
    )
    return Mismatch(kind="clock", group="", ranks=named, says=says)


def _never_met(position: int, beside: Sequence[int], ranks: Sequence[RankDigest], matched: Match) -> bool:
    """Whether, on the host's clock, a rank was outside of most collectives while another of its host was inside."""
    base = bases_of(ranks)
    for group in matched:
        if position not in group.members or not group.symmetric.any():
            continue
        start, end = (times[group.symmetric] + base[group.members] for times in (group.start, group.end))
        own, others = group.members == position, np.isin(group.members, beside)
        gap = np.maximum(start[:, own] - end[:, others], start[:, others] - end[:, own])
        if (np.median(gap, axis=0) > 0).any():
            return True
    return False
