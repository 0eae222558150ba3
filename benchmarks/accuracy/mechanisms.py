"""Kinds of faults by mechanism, and halves that keep each mechanism on one side.

Kinds share a mechanism if a rule cures both, or if they delay a rank for the same cause. `straggler` joins nothing,
since it cures every late rank; what makes a rank late belongs to the fault of whole jobs that is like it. Two faults at
once, which have "and" in their name, join nothing either: they have the mechanisms of both.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .corpus import Case

_TWO = " and "
_OF_ANY_RANK = "straggler"
_LIKE = {"data": "data-wait", "host": "launch-bound", "link": "slow-network", "rotating-stragglers": "more_work"}


@dataclass(frozen=True)
class Mechanisms:
    """The mechanisms of each kind, by its name: two of two faults at once, else one."""

    of_kind: Mapping[str, tuple[str, ...]]

    def home(self, case: Case) -> str:
        """The mechanism with which the job is left out: that of the first of its faults."""
        return self.of_kind[case.name][0]

    def within(self, case: Case, mechanisms: Iterable[str]) -> bool:
        """Whether all that is wrong with the job is of these mechanisms: only then may they be fitted on it."""
        return {*self.of_kind[case.name]} <= {*mechanisms}

    def halves(self, homes: Sequence[str], seed: int) -> tuple[frozenset[str], frozenset[str]]:
        """The mechanisms at random in two parts, of which the first has half of the jobs or just more."""
        drawn = random.Random(seed).sample(everything := sorted({*homes}), len(everything))
        first: set[str] = set()
        while 2 * sum(home in first for home in homes) < len(homes):
            first.add(drawn.pop())
        return frozenset(first), frozenset(drawn)


def mechanisms_of(cases: Iterable[Case]) -> Mechanisms:
    """Of these jobs; a mechanism is called as its first kind."""
    marks = {case.name: _marks(case) for case in cases}
    groups: list[tuple[str, set[str]]] = []
    for name, held in marks.items():
        if _TWO not in name:
            groups = _joined(groups, name, {*held})
    called = {mark: name for name, held in groups for mark in held}
    return Mechanisms({name: tuple(dict.fromkeys(called[mark] for mark in held)) for name, held in marks.items()})


def _joined(groups: list[tuple[str, set[str]]], name: str, held: set[str]) -> list[tuple[str, set[str]]]:
    """The groups with one more kind, which makes one of all that it shares a mark with."""
    alike = [group for group in groups if group[1] & held]
    whole = (alike[0][0] if alike else name, held.union(*(marks for _, marks in alike)))
    return [*(group for group in groups if group not in alike), whole]


def _marks(case: Case) -> tuple[str, ...]:
    """What a kind shares with others of its mechanism, in the order of its rules."""
    causes = (cause for _, cause in (*case.late, *case.may_be_late))
    found = [rule for rule in (*case.rules, *causes) if rule != _OF_ANY_RANK]
    return tuple(dict.fromkeys(_LIKE.get(mark, mark) for mark in found)) or ("healthy",)
