"""Pairs of measured runs that differ in one switch: what it bought, and what is predicted of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from reporting import table

from diagnose.commands.fit.stacks import StackRates
from diagnose.commands.fit.step_time import predict_step
from diagnose.predict.memory.job import JobPlan

from .rates import Row

SWITCHES = {"compiled": False, "fp8": False, "liger": False, "attention": "sdpa", "dtype": "bf16-mixed"}
NOISE = 0.03  # of the rate: a smaller gain has no sign


@dataclass(frozen=True)
class Pair:
    """A run with a switch as it was, and one with it changed.

    Attributes:
        switch: the field of the plan that differs.
        measured: rate after over rate before.
        predicted: the same, predicted.
        low: the least that the ranges of both predictions leave.
        high: the most.
    """

    switch: str
    measured: float
    predicted: float
    low: float
    high: float

    @property
    def has_right_sign(self) -> bool:
        """Whether it was predicted to help where it helped."""
        return abs(self.measured - 1) <= NOISE or (self.measured > 1) == (self.predicted > 1)


def pairs(rows: Sequence[Row], stack: StackRates) -> Iterator[Pair]:
    """Every two rows that differ in one switch alone, the faster one second."""
    for switch, usual in SWITCHES.items():
        alike: dict[JobPlan, list[Row]] = {}
        for row in rows:
            alike.setdefault(replace(row.plan, **{switch: usual}), []).append(row)  # type: ignore[arg-type]
        for group in alike.values():
            group.sort(key=lambda row: row.tokens_per_s_per_gpu)
            for before, after in combinations(group, 2):
                if before.plan != after.plan:
                    yield _pair(switch, before, after, stack)


def _pair(switch: str, before: Row, after: Row, stack: StackRates) -> Pair:
    first, second = predict_step(before.plan, stack), predict_step(after.plan, stack)
    return Pair(
        switch,
        measured=after.tokens_per_s_per_gpu / before.tokens_per_s_per_gpu,
        predicted=second.tokens_per_s / first.tokens_per_s,
        low=first.fastest_s / second.slowest_s,
        high=first.slowest_s / second.fastest_s,
    )


def report(rows: Sequence[Row], stack: StackRates) -> str:
    """A table of the switches that the rows have pairs of, "" where they have none."""
    found = list(pairs(rows, stack))
    heads = "pairs that differ in", "pairs", "measured gain", "predicted", "median error", "right sign", "in the range"
    of_switch = {switch: [pair for pair in found if pair.switch == switch] for switch in SWITCHES}
    return table(heads, [_row(switch, own) for switch, own in of_switch.items() if own]) if found else ""


def _row(switch: str, own: Sequence[Pair]) -> list[object]:
    error = float(np.median([abs(pair.predicted / pair.measured - 1) for pair in own]))
    gains = (_span([getattr(pair, name) for pair in own]) for name in ("measured", "predicted"))
    inside = sum(pair.low <= pair.measured <= pair.high for pair in own)
    return [switch, len(own), *gains, f"{100 * error:.1f} %", sum(pair.has_right_sign for pair in own), inside]


def _span(gains: Sequence[float]) -> str:
    low, high = min(gains), max(gains)
    return f"{low:.2f}x" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f}x to {high:.2f}x"
