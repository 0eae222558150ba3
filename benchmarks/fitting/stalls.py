"""Which measured runs stalled, and the odds of it that follow: a logistic regression with few coefficients."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from diagnose.commands.fit.stacks import StackRates
from diagnose.commands.fit.step_time import evidence, predict_step, stall_s

from .rates import Row

RIDGE = 0.3  # what holds a coefficient back that few runs tell of, in units of the spread of what it stands for
ITERATIONS = 30
SHORT = 0.3  # of the step: where a stall would be less, a run counts as stalled that lost half of it


def stalled(row: Row, stack: StackRates) -> bool:
    """Whether a run between nodes took the time of a stalled job rather than that of a steady one.

    No run of a stack without odds is known to stall.
    """
    if not stack.stall_odds:
        return False
    steady_s, lost_s = predict_step(row.plan, stack).steady_s, stall_s(row.plan, stack)
    measured_s = row.plan.tokens_per_step / row.plan.gpus / row.tokens_per_s_per_gpu
    if lost_s < SHORT * steady_s:
        return row.plan.nodes > 1 and measured_s > steady_s * (1 + SHORT)
    return measured_s > (steady_s * (steady_s + lost_s)) ** 0.5


def with_odds(rows: Sequence[Row], stack: StackRates) -> StackRates:
    """The stack with the odds of a stall that the rows show; unchanged where none of its runs is known to stall."""
    between = [row for row in rows if row.plan.nodes > 1]
    if not stack.stall_odds or not between:
        return stack
    known = [evidence(row.plan) for row in between]
    values = np.array([[each[name] for name in stack.stall_odds] for each in known])
    odds = _logistic(values, np.array([stalled(row, stack) for row in between], float))
    return replace(stack, stall_odds={name: round(float(x), 3) for name, x in zip(stack.stall_odds, odds, strict=True)})


def _logistic(values: np.ndarray, happened: np.ndarray) -> np.ndarray:
    """Coefficients of the logarithm of the odds (Newton's method)."""
    odds = np.zeros(values.shape[1])
    spread = values.std(axis=0)
    ridge = RIDGE * np.where(spread > 0, spread, 1) ** 2
    for _ in range(ITERATIONS):
        chance = 1 / (1 + np.exp(-values @ odds))
        slope = values.T @ (happened - chance) - ridge * odds
        curve = (values.T * (chance * (1 - chance))) @ values + np.diag(ridge)
        odds = odds + np.linalg.solve(curve, slope)
    return odds
