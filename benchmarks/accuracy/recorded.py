"""What the class of a job is judged from, kept once so that it can be judged again by other thresholds."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from unittest import mock

from diagnose.attribution import leading
from diagnose.attribution.leading import leader
from diagnose.diagnosis import LedgerEntry, Verdict
from diagnose.judge import doubts, judge, verdict
from diagnose.judge.verdict import Grounds, verdict_of

from .corpus import Case
from .run import outcome_of
from .score import Outcome
from .truth import CLASSES

_READERS = (leading, doubts, verdict)  # each has the thresholds that it reads among its names
Thresholds = Mapping[str, float]


@dataclass(frozen=True)
class Recorded:
    """A job's outcome, with the breakdown and the grounds that its verdict rests on."""

    outcome: Outcome
    breakdown: tuple[LedgerEntry, ...]
    grounds: Grounds


def recorded(case: Case) -> Recorded:
    """One job, run and analysed."""
    kept: list[tuple[tuple[LedgerEntry, ...], Grounds]] = []

    def keeping(breakdown: tuple[LedgerEntry, ...], grounds: Grounds) -> Verdict:
        kept.append((breakdown, grounds))
        return verdict_of(breakdown, grounds)

    with mock.patch.object(judge, "verdict_of", keeping):
        outcome = outcome_of(case)
    return Recorded(outcome, *kept[-1])


def all_recorded(cases: Sequence[Case], jobs: int) -> list[Recorded]:
    """Each of the jobs, in so many processes."""
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(recorded, cases))


def shipped(names: Sequence[str]) -> dict[str, float]:
    """The thresholds as they are."""
    return {name: next(vars(reader)[name] for reader in _READERS if name in vars(reader)) for name in names}


def judged(records: Sequence[Recorded], thresholds: Thresholds) -> list[str]:
    """The class of each job by these thresholds."""
    with _set_to(thresholds):
        return [verdict_of(one.breakdown, one.grounds).class_ for one in records]


def true_classes(records: Sequence[Recorded], thresholds: Thresholds) -> list[str]:
    """The true class of each job by these thresholds."""
    with _set_to(thresholds):
        return [CLASSES[leader(one.outcome.truth.shares)[0]] for one in records]


@contextmanager
def _set_to(thresholds: Thresholds) -> Iterator[None]:
    with ExitStack() as stack:
        for reader in _READERS:
            for name in thresholds.keys() & vars(reader).keys():
                stack.enter_context(mock.patch.object(reader, name, thresholds[name]))
        yield
