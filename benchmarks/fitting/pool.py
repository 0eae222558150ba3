"""Rates of a training stack that nobody measured: fitted on the rows of all others, each stack with equal weight."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from diagnose.commands.fit.stacks import StackRates, stacks

from .folds import Fold, depended_on, ends_of, with_assumptions
from .rates import DENSE_RATES, LOOSE, Row, fitted
from .stalls import stalled

POOLED = "other"
_OF_EACH = 40  # rows of a stack
_TOLERANCE = 0.25  # of the logarithm: stacks differ by so much
_STALLS = ("stall_s", "collective_stall_s")
_FREE = tuple(name for name in DENSE_RATES if name not in _STALLS)


def pooled(rows_of: Mapping[str, Sequence[Row]]) -> StackRates:
    """The stack "other", fitted on rows of each stack alike; what it starts from is in the data file.

    A rate that a single stack tells, or none, is an assumption for any other.
    """
    samples = {name: _sample(name, rows) for name, rows in rows_of.items()}
    start = stacks()[POOLED]
    told = Counter(rate for rows in samples.values() for rate in depended_on(rows, start))
    begin = with_assumptions(start, {rate for rate in _FREE if told[rate]}, {})
    rows = [row for own in samples.values() for row in own]
    free = [rate for rate in _FREE if told[rate]]
    stack = fitted(rows, begin, free, LOOSE, _TOLERANCE)
    alone = {rate: ends_of(rate, (getattr(stack, rate),)) for rate in free if told[rate] == 1}
    return replace(stack, measured=(), assumed={**begin.assumed, **alone})


def _sample(name: str, rows: Sequence[Row]) -> Sequence[Row]:
    steady = [row for row in rows if not stalled(row, stacks()[name])] if name in stacks() else list(rows)
    return steady[:: max(len(steady) // _OF_EACH, 1)]


def stacks_left_out(rows_of: Mapping[str, Sequence[Row]]) -> Iterator[Fold]:
    """Each stack predicted by what the others make of one that nobody measured."""
    for name, rows in rows_of.items():
        blind = pooled({other: own for other, own in rows_of.items() if other != name})
        yield Fold(POOLED, "stack", name, list(rows), blind)
