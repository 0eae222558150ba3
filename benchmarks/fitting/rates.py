"""Fits the rates of a training stack on measured rows: robust least squares of the logarithm of throughput."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields

import numpy as np

from diagnose.commands.fit.stacks import StackRates
from diagnose.commands.fit.step_time import predict_step
from diagnose.predict.memory.job import JobPlan

TOLERANCE = 0.06  # of the logarithm: rows further off count less (Cauchy)
LOOSE, FIRM = 0.03, 0.2  # how firmly a rate stays where it starts, in rows for a factor e
ITERATIONS = 25


@dataclass(frozen=True)
class Row:
    """A measured run.

    Attributes:
        plan: what ran.
        tokens_per_s_per_gpu: that it reached.
        mfu: share of the peak, as the table has it.
        model: the name that folds go by.
    """

    plan: JobPlan
    tokens_per_s_per_gpu: float
    mfu: float
    model: str


DENSE_RATES = tuple(field.name for field in fields(StackRates) if field.type is float and field.default is MISSING)
"""Of dense models; those of mixtures and of context parallelism are fitted beside them."""


def is_part(rate: str) -> bool:
    """Whether a rate is a part of a whole, and so at most 1."""
    return rate.endswith("_share") or rate.startswith(("liger_", "compiled_", "narrow_"))


def ratios(rows: Sequence[Row], stack: StackRates) -> np.ndarray:
    """Predicted over measured throughput of each row."""
    return np.array([predict_step(r.plan, stack).tokens_per_s_per_gpu / r.tokens_per_s_per_gpu for r in rows])


def fitted(
    rows: Sequence[Row],
    start: StackRates,
    names: Sequence[str],
    firmness: float = LOOSE,
    tolerance: float = TOLERANCE,
) -> StackRates:
    """The stack with the named rates fitted, in logarithms, from where they start (Levenberg and Marquardt).

    Where many rates share what the rows tell, a firm start keeps those that only trade places with each other.
    """
    x0 = np.log([getattr(start, name) for name in names])
    most = np.array([0.0 if is_part(name) else np.inf for name in names])  # nothing exceeds its whole

    def stack(x: np.ndarray) -> StackRates:
        return start.with_rates(dict(zip(names, map(float, np.exp(np.minimum(x, most))), strict=True)))

    def residuals(x: np.ndarray) -> np.ndarray:
        return np.concatenate([np.log(ratios(rows, stack(x))) / tolerance, firmness * (x - x0) / TOLERANCE])

    return stack(_minimised(residuals, x0))


def _minimised(residuals: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    damping, now = 1e-2, residuals(x)
    for _ in range(ITERATIONS):
        slopes = _slopes(residuals, x, now)
        weights = 1 / (1 + now * now)
        normal = slopes.T @ (weights[:, None] * slopes)
        for _ in range(6):
            step = np.linalg.solve(normal + damping * np.diag(np.diag(normal) + 1e-9), -slopes.T @ (weights * now))
            tried = residuals(x + np.clip(step, -0.7, 0.7))
            if _loss(tried) < _loss(now):
                break
            damping *= 4
        else:
            return x
        done = _loss(now) - _loss(tried) < 1e-5 * _loss(now)
        x, now, damping = x + np.clip(step, -0.7, 0.7), tried, damping / 3
        if done:
            return x
    return x


def _loss(residuals: np.ndarray) -> float:
    return float(np.log1p(residuals * residuals).sum())


def _slopes(residuals: Callable[[np.ndarray], np.ndarray], x: np.ndarray, now: np.ndarray) -> np.ndarray:
    width = 1e-4
    return np.stack([(residuals(x + width * unit) - now) / width for unit in np.eye(len(x))], axis=1)


def choices(rows: Sequence[Row], stack: StackRates) -> Mapping[tuple[str, int], float]:
    """By model and GPUs, how much slower than the best the row is that would be chosen; share of its rate."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.model, row.plan.gpus), []).append(row)
    lost = {}
    for key, group in sorted(groups.items()):
        chosen = max(group, key=lambda row: predict_step(row.plan, stack).expected_tokens_per_s)
        best = max(row.tokens_per_s_per_gpu for row in group)
        lost[key] = 1 - chosen.tokens_per_s_per_gpu / best
    return lost
