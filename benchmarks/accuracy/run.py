"""Runs the corpus, in several processes."""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor

from .answer import answered
from .corpus import SCORED_SEEDS, SEVERITIES, Case, Severity, corpus, drawn, further, healthy
from .score import Outcome
from .truth import truth_of

FULL_SEEDS = (0, 1, 3)
HEALTHY_SEEDS = range(101, 110)  # so many that at most 2 % wrong can be told from 5 %
DRAWN_SEEDS = (3,)


def cases_of(
    subset: str, seeds: Sequence[int] = FULL_SEEDS, severities: tuple[Severity, ...] = SEVERITIES
) -> list[Case]:
    """The corpus, or a part of it: "ci" is one seed of the scored half in one severity, "quick" each fourth of that.

    "healthy" are jobs in which nothing is wrong, "drawn" faults on machines of other figures, and "further" faults on
    an AMD GPU, of inference, and in captures of few steps.
    """
    if subset == "healthy":
        return list(healthy(HEALTHY_SEEDS))
    if subset == "drawn":
        return list(drawn(DRAWN_SEEDS, severities))
    if subset == "further":
        return list(further(DRAWN_SEEDS, severities))
    if subset == "full":
        return list(corpus(seeds, severities))
    chosen = list(corpus(SCORED_SEEDS, SEVERITIES[1:2]))
    return chosen[::4] if subset == "quick" else chosen


def outcome_of(case: Case) -> Outcome:
    """One job, its truth and its answer."""
    return Outcome(case, truth_of(case.job), answered(case.job, case.kept))


def outcomes_of(cases: Sequence[Case], jobs: int, done: Callable[[Outcome], None]) -> list[Outcome]:
    """All of them, in the order of the corpus; `done` is called with each as it is ready."""
    outcomes = []
    with ProcessPoolExecutor(jobs) as pool:
        for outcome in pool.map(outcome_of, cases):
            done(outcome)
            outcomes.append(outcome)
    return outcomes
