"""Who waits for whom inside the collectives, when, and for what the late rank did meanwhile."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diagnose import intervals as iv
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.match import GroupMatch, Match

Column = NDArray[np.int64]
COMMUNICATION = "communication"


@dataclass(frozen=True)
class Lateness:
    """For one collective: position in the job of the rank that came last, and its excess over the others by cause."""

    late: int
    excess: Mapping[str, int]
    class_: str


@dataclass(frozen=True)
class Waits:
    """The instants at which one rank waits inside collectives, disjoint and in order; columns of equal length.

    Attributes:
        start: nanoseconds of the rank's own clock, as `end`.
        late: position in the job of the rank that is waited for.
        class_: index of `classes`, the class of what made that rank late.
        exposed_ns: the part of the time in which nothing else runs.
        step: number of the step that it begins in.
    """

    start: Column
    end: Column
    late: Column
    class_: Column
    exposed_ns: Column
    step: Column
    classes: tuple[str, ...]

    def pieces(self, class_: str) -> iv.Intervals:
        """The instants of waiting for ranks that are late by causes of a class."""
        if class_ not in self.classes:
            return iv.EMPTY
        own = self.class_ == self.classes.index(class_)
        return iv.intervals(self.start[own], self.end[own])


def lateness_of(ranks: Sequence[RankDigest], found: GroupMatch) -> list[Lateness]:
    """Who came last to each collective, and what it did since its step began that the others did not.

    What the others did is the median over them until they reached the same collective, each on its own clock.
    """
    causes = tuple(dict.fromkeys(cause for p in found.members for cause in ranks[p].causes))
    classes = {c: own for p in found.members for c, own in zip(ranks[p].causes, ranks[p].classes, strict=True)}
    spent = np.zeros((*found.call.shape, len(causes)), np.int64)
    for m, p in enumerate(found.members.tolist()):
        spent[:, m, [causes.index(c) for c in ranks[p].causes]] = ranks[p].spent[found.call[:, m]]
    excess = _excess(spent, found.last)
    return [
        Lateness(int(found.members[late]), by_cause := _named(causes, own), main_class(by_cause, classes))
        for late, own in zip(found.last.tolist(), excess, strict=True)
    ]


def _excess(spent: Column, last: Column) -> Column:
    """What the last rank of each collective spent above the median of the others, shape (instances, causes)."""
    at = np.arange(len(last))
    others = np.ones(spent.shape[:2], bool)
    others[at, last] = False
    rest = spent[others].reshape(spent.shape[0], spent.shape[1] - 1, spent.shape[2])
    return np.rint(np.maximum(spent[at, last] - np.median(rest, axis=1), 0)).astype(np.int64)


def _named(causes: Sequence[str], ns: Column) -> dict[str, int]:
    return {cause: int(n) for cause, n in zip(causes, ns.tolist(), strict=True) if n}


def main_class(excess: Mapping[str, int], classes: Mapping[str, str]) -> str:
    """The class with the largest excess, communication when there is none; untraced host time is the host's."""
    sums: dict[str, int] = {}
    for cause, ns in excess.items():
        own = class_of(cause, classes)
        sums[own] = sums.get(own, 0) + ns
    return max(sums, key=lambda c: sums[c]) if sums else COMMUNICATION


def class_of(cause: str, classes: Mapping[str, str]) -> str:
    """The class of a cause; untraced host time is the host's, as in the verdict."""
    return "host" if cause == "untraced" else classes[cause]


def waits_of(ranks: Sequence[RankDigest], found: Match, lateness: Sequence[Sequence[Lateness]]) -> tuple[Waits, ...]:
    """The waiting of each rank; of collectives that overlap the one that began first has the time.

    Args:
        ranks: of the job.
        found: their collectives by group.
        lateness: for each group what `lateness_of` returns.
    """
    classes = tuple(sorted({entry.class_ for entries in lateness for entry in entries}))
    parts: list[list[Column]] = [[np.zeros((0, 4), np.int64)] for _ in ranks]
    for group, entries in zip(found, lateness, strict=True):
        about = np.array([(e.late, classes.index(e.class_)) for e in entries], np.int64)
        waiting = group.waiting
        for m, p in enumerate(group.members.tolist()):
            times = np.stack((group.start[:, m], group.start[:, m] + waiting[:, m]), axis=1)
            parts[p].append(np.concatenate((times, about), axis=1)[waiting[:, m] > 0])
    return tuple(_waits(rank, np.concatenate(own), classes) for rank, own in zip(ranks, parts, strict=True))


def _waits(rank: RankDigest, rows: Column, classes: tuple[str, ...]) -> Waits:
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    start, end = iv.exclusive(rows[:, 0], rows[:, 1])
    step = np.searchsorted(rank.windows[:, 0], start, side="right") - 1
    numbers = np.array(rank.numbers, np.int64)
    return Waits(
        start=start,
        end=end,
        late=rows[:, 2],
        class_=rows[:, 3],
        exposed_ns=iv.coverage(rank.exposed, start, end),
        step=numbers[np.maximum(step, 0)] if len(numbers) else start,
        classes=classes,
    )


def waiting_caused(ranks: Sequence[RankDigest], waits: Sequence[Waits]) -> Column:
    """Exposed nanoseconds that the others wait for each rank in each step, shape (ranks, steps of the job)."""
    numbers = sorted({number for rank in ranks for number in rank.numbers})
    caused = np.zeros((len(ranks), max(len(numbers), 1)), np.int64)
    for position, own in enumerate(waits):
        other = own.late != position
        np.add.at(caused, (own.late[other], np.searchsorted(numbers, own.step[other])), own.exposed_ns[other])
    return caused
