"""Fits the thresholds of the class and the promised ranges on some jobs, to score them on others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from statistics import median_low

import numpy as np
from promises import Pair, middle

from diagnose.metrics import units
from diagnose.rule import load_rules

from .answer import Range
from .recorded import Recorded, judged
from .score import Outcome, Score

TRIED: Mapping[str, tuple[float, ...]] = {
    "NAMES_THE_CLASS": tuple(percent / 100 for percent in range(10, 31)),
    "NEAR": tuple(percent / 100 for percent in range(1, 11)),
    "TOO_MANY_LOST": (0.02, 0.05, 0.1, 0.2, 0.3, 0.5),
    "ODD_FACTOR": (1.25, 1.5, 2.0, 3.0, 4.0),
    "ODD_SHARE": (0.1, 0.2, 1 / 3, 0.5),
}  # what else the verdict reads makes it more or less sure, and no other one
STRETCHES = np.geomspace(0.2, 5, 101).tolist()
LEAST_PAIRS = 5  # of a class, for a position of its own
Said = Mapping[float, Sequence[str]]


def by_threshold(records: Sequence[Recorded]) -> dict[str, Said]:
    """Threshold -> each value -> the class of each job; only of thresholds that change the class of any job."""
    usual = judged(records, {})
    said = {name: {value: judged(records, {name: value}) for value in values} for name, values in TRIED.items()}
    return {name: each for name, each in said.items() if any(classes != usual for classes in each.values())}


def best_value(said: Said, true: Sequence[str], chosen: Sequence[int]) -> float:
    """The value at which most of the chosen jobs are right; of equals the middle."""
    right = {value: sum(classes[job] == true[job] for job in chosen) for value, classes in said.items()}
    return median_low(value for value, count in right.items() if count == max(right.values()))


@cache
def class_of(rule: str) -> str:
    """The class of a rule's fault."""
    return next(one.class_ for one in load_rules((), units(), cache=True) if one.id == rule)


@dataclass(frozen=True)
class Scale:
    """What makes other ranges of the promised ones, on the logarithm: their middle lies where gains of the rule's class
    lie in theirs (0 is the low end), and they are `stretch` times as wide.
    """

    positions: Mapping[str, float]
    of_others: float
    stretch: float = 1.0

    def of(self, outcome: Outcome) -> Outcome:
        """The job with its ranges changed."""
        changed = {rule: self._changed(promise, class_of(rule)) for rule, promise in outcome.answer.promised.items()}
        return replace(outcome, answer=replace(outcome.answer, promised=changed))

    def _changed(self, promise: Range, class_: str) -> Range:
        low, high = promise
        if not high or low <= 0:
            return promise
        width, at = high / low, self.positions.get(class_, self.of_others)
        return low * width ** (at - self.stretch / 2), low * width ** (at + self.stretch / 2)


def scale_of(outcomes: Sequence[Outcome]) -> Scale:
    """The positions of what was bought, and the least stretch at which ranges about them hold as much as unchanged."""
    by_class: dict[str, list[Pair]] = {}
    for rule, low, high, bought in (one for outcome in outcomes for one in outcome.ranges):
        by_class.setdefault(class_of(rule), []).append(Pair("", rule, low, high, bought, ""))
    positions = {class_: middle(pairs) for class_, pairs in by_class.items() if len(pairs) >= LEAST_PAIRS}
    centred, held = Scale(positions, middle(chain.from_iterable(by_class.values()))), Score(outcomes).covered.share
    scales = (replace(centred, stretch=stretch) for stretch in STRETCHES)
    enough = (one for one in scales if Score([one.of(each) for each in outcomes]).covered.share >= held)
    return next(enough, replace(centred, stretch=STRETCHES[-1]))
