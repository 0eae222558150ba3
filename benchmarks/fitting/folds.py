"""Rows left out of a fit because of what they share, and how far they then are from what is predicted of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from diagnose.commands.fit.boards import family
from diagnose.commands.fit.stacks import MeasuredRuns, StackRates, kinds_of, stacks
from diagnose.commands.fit.step_time import predict_step

from .rates import DENSE_RATES, Row, is_part
from .stalls import stalled

Learn = Callable[[Sequence[Row], StackRates], StackRates]
_MOVED = 1.5  # a rate by so much, to see which rows depend on it
_DEPENDS = 0.001  # of the step
FOLD_ROWS = 200  # of those that are left, evenly taken, a fold is fitted on
FOUR_IN_FIVE = 80
SIZES: Mapping[str, Callable[[Row], int]] = {
    "seq_len": lambda row: row.plan.seq_len,
    "parameters": lambda row: row.plan.model.parameters,
    "nodes": lambda row: row.plan.nodes,
}
"""Axes of which halves are left out: what lies beyond the measured ones is extrapolated."""


@dataclass(frozen=True)
class Fold:
    """Rows that were left out of a fit because of a value that they share, and the stack that was fitted without them.

    Attributes:
        stack: the stack's name.
        axis: what they share.
        value: of it.
        rows: left out.
        blind: the stack fitted on the others.
    """

    stack: str
    axis: str
    value: str
    rows: list[Row]
    blind: StackRates

    @cached_property
    def predicted(self) -> np.ndarray:
        """Predicted over measured throughput of each row."""
        steps = [predict_step(row.plan, self.blind) for row in self.rows]
        return np.array([measured_s(row) / step.step_s for step, row in zip(steps, self.rows, strict=True)])

    @cached_property
    def steady_rows(self) -> list[tuple[Row, float]]:
        """Rows that did not stall, with predicted over measured throughput of a run that does not."""
        knows = stacks().get(self.value, self.blind) if self.axis == "stack" else self.blind
        rows = [row for row in self.rows if not stalled(row, knows)]
        steps = [predict_step(row.plan, self.blind) for row in rows]
        return [(row, measured_s(row) / step.steady_s) for row, step in zip(rows, steps, strict=True)]

    @cached_property
    def beyond(self) -> np.ndarray:
        """Logarithms by which rows that did not stall are off, beyond what their assumed rates allow."""
        certain = dict.fromkeys(self.blind.uncertainty, 1.0)
        stack = replace(self.blind, uncertainty=certain, span=dict.fromkeys(self.blind.span, (1.0, 1.0)))
        found = []
        for row, ratio in self.steady_rows:
            step = predict_step(row.plan, stack)
            edge = step.calibration.high_s if ratio > 1 else step.calibration.low_s
            off, allowed = np.log(ratio), np.log(edge / step.steady_s)
            found.append(np.sqrt(max(off * off - allowed * allowed, 0.0)))
        return np.array(found)

    def ranges(self, uncertainty: Mapping[str, float]) -> tuple[np.ndarray, np.ndarray]:
        """Whether each row lies in its range, and how wide that is."""
        stack = replace(self.blind, uncertainty=uncertainty)
        steps = [predict_step(row.plan, stack).calibration for row in self.rows]
        measured = [measured_s(row) for row in self.rows]
        inside = [s.low_s <= seconds <= s.high_s for s, seconds in zip(steps, measured, strict=True)]
        return np.array(inside), np.array([step.width for step in steps])


def measured_s(row: Row) -> float:
    """Seconds of the step that a run took."""
    return row.plan.tokens_per_step / row.plan.gpus / row.tokens_per_s_per_gpu


def measured_runs(rows: Sequence[Row]) -> tuple[MeasuredRuns, ...]:
    """The rows by board and division, with the sizes that they span."""
    groups: dict[tuple[str, tuple[str, ...], bool], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.plan.gpu.key, kinds_of(row.plan), bool(row.plan.model.experts)), []).append(row)
    return tuple(
        MeasuredRuns(*key, len(own), **{name: _ends([size(row) for row in own]) for name, size in SIZES.items()})
        for key, own in sorted(groups.items())
    )


def _ends(values: Sequence[float]) -> tuple[int, int]:
    return int(min(values)), int(max(values))


def depended_on(rows: Sequence[Row], stack: StackRates) -> set[str]:
    """The rates on which the step of at least one of the rows depends."""
    steady = np.array([predict_step(row.plan, stack).steady_s for row in rows])
    found = set()
    for name in DENSE_RATES:
        moved = stack.with_rates({name: (getattr(stack, name) or 1.0) / _MOVED})
        changed = np.array([predict_step(row.plan, moved).steady_s for row in rows])
        if np.max(np.abs(changed / steady - 1)) > _DEPENDS:
            found.add(name)
    return found


PRIORS = {
    "ampere_matrix": (1.0, 1.08, 1.15),  # best products: 86.9 % of A100's peak, 80.3 % of H100's (ml-engineering)
    "ampere_attention": (1.4, 1.75, 2.1),  # FlashAttention-2: 50 to 73 % of A100's peak, 35 % of H100's
    "blackwell_matrix": (0.8, 0.97, 1.1),  # best products: 77.6 % of B200's peak
    "blackwell_attention": (0.6, 0.97, 1.3),
    "narrow_head_attention": (0.75, 0.87, 1.0),
    "host_shard_s": (0.0002, 0.0005, 0.002),  # an assumption: a dozen to a hundred launches
    "hook_s": (0.0001, 0.00072, 0.0025),  # as a module of ZeRO-3; three times as much with pi05 (OpenTau, issue 177)
    "tp_nodes_gbs": (50.0, 200.0, 400.0),  # an eighth to all of a node's network, as nodes of H100 have it
    "host_layer_tp_s": (0.001, 0.003, 0.005),
    "tp_exposed_share": (0.3, 0.6, 1.0),
    "ring_hop_s": (1e-5, 3e-5, 1e-4),
    "pipeline_hop_s": (1e-5, 5e-5, 3e-4),
    "handover_s": (5e-5, 3e-4, 1e-3),
    "gather_exposed_share": (0.1, 0.5, 1.0),
    "reduce_exposed_share": (0.05, 0.15, 0.6),
    "compiled_elementwise": (0.4, 0.65, 1.0),
    "fp8_share": (0.45, 0.55, 0.7),
}
"""Least, likely and greatest value of rates that no other stack's runs tell, as others published them."""

_OF_BOARD = ("ampere_matrix", "ampere_attention", "blackwell_matrix", "blackwell_attention")  # "board" widens for them
_ALONE = 1.5  # either way, of a rate that a single other stack tells


def with_assumptions(stack: StackRates, known: set[str], others: Mapping[str, Sequence[float]]) -> StackRates:
    """The stack with each rate that its rows do not depend on taken from the other stacks: their middle, and ends."""
    rates = (*DENSE_RATES, *(["hook_s"] if stack.hook_s else []))
    values = {name: sorted(others.get(name) or PRIORS.get(name, ())) for name in rates if name not in known}
    told = {name: own for name, own in values.items() if own and own[0] > 0}
    middle = {name: float(np.exp(np.median(np.log(own)))) for name, own in told.items()}
    assumed = {name: ends_of(name, own) for name, own in told.items() if name not in _OF_BOARD}
    return replace(stack.with_rates(middle), assumed=assumed)


def ends_of(name: str, values: Sequence[float]) -> tuple[float, float]:
    """Least and greatest value of a rate that stacks reach; of a single one so much either way."""
    if len(values) > 1:
        return values[0], values[-1]
    return values[0] / _ALONE, min(values[0] * _ALONE, 1.0) if is_part(name) else values[0] * _ALONE


def folds_of(rows: Sequence[Row], start: StackRates, learn: Learn) -> Iterator[Fold]:
    """Every model, board, way of dividing, length and number of nodes left out in turn, and halves of each size."""
    yield from _by_value(rows, start, learn, "model", lambda row: row.model)
    yield from _by_value(rows, start, learn, "number of nodes", SIZES["nodes"])
    yield from _by_value(rows, start, learn, "length", SIZES["seq_len"])
    for axis in SIZES:
        yield from _by_half(rows, start, learn, axis)
    yield from _by_value(rows, start, learn, "board", lambda row: family(row.plan.gpu.key))
    yield from _by_value(rows, start, learn, "variant", lambda row: row.plan.gpu.key)
    for kind in sorted({kind for row in rows for kind in kinds_of(row.plan)}):
        yield from _fold(rows, start, learn, "sharding", kind, lambda row, kind=kind: kind in kinds_of(row.plan))


def _by_value(
    rows: Sequence[Row], start: StackRates, learn: Learn, axis: str, key: Callable[[Row], object]
) -> Iterator[Fold]:
    for value in sorted({key(row) for row in rows}):  # type: ignore[type-var]
        for fold in _fold(rows, start, learn, axis, str(value), lambda row, value=value: key(row) == value):
            if axis != "variant" or _has_sibling(fold, rows):
                yield fold


def _by_half(rows: Sequence[Row], start: StackRates, learn: Learn, axis: str) -> Iterator[Fold]:
    size = SIZES[axis]
    values = sorted({size(row) for row in rows})
    middle = values[len(values) // 2]
    yield from _fold(rows, start, learn, axis, f"from {middle:,} on", lambda row: size(row) >= middle)
    yield from _fold(rows, start, learn, axis, f"below {middle:,}", lambda row: size(row) < middle)


def _has_sibling(fold: Fold, rows: Sequence[Row]) -> bool:
    """Whether rows of the same chip with other memory are left in the fit."""
    keys = {row.plan.gpu.key for row in rows if family(row.plan.gpu.key) == family(fold.value)}
    return len(keys) > 1


def _fold(
    rows: Sequence[Row], start: StackRates, learn: Learn, axis: str, value: str, shared: Callable[[Row], bool]
) -> Iterator[Fold]:
    inside, outside = [row for row in rows if shared(row)], [row for row in rows if not shared(row)]
    if inside and outside:
        seen = outside[:: -(-len(outside) // FOLD_ROWS)]
        blind = replace(learn(seen, start), measured=measured_runs(outside))
        yield Fold(start.name, axis, value, inside, blind)


def factor(folds: Sequence[Fold]) -> float:
    """By what a range is wider for what the folds left out: how far off four in five of their rows are at most.

    Each fold counts once, however many rows it has.
    """
    folds = [fold for fold in folds if len(fold.beyond)]
    if not folds:
        return 1.0
    weights = [np.full(len(fold.beyond), 1 / len(fold.beyond)) for fold in folds]
    return float(np.exp(_quantile(np.concatenate([fold.beyond for fold in folds]), np.concatenate(weights))))


def _quantile(values: np.ndarray, weights: np.ndarray) -> float:
    order = np.argsort(values)
    share = np.cumsum(weights[order]) / weights.sum()
    return float(values[order][np.searchsorted(share, FOUR_IN_FIVE / 100)])
