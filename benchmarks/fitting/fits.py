"""Every stack fitted on its rows and on parts of them: rates, what they assume, and what widens a range."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from diagnose.commands.fit.stacks import StackRates, stacks
from diagnose.commands.fit.step_time import regime

from .folds import Fold, depended_on, factor, folds_of, measured_runs, with_assumptions
from .pool import POOLED, pooled, stacks_left_out
from .rates import DENSE_RATES, FIRM, LOOSE, Row, fitted
from .rows import SOURCES, UNNAMED
from .stalls import with_odds

FEWEST = 8  # rows of a regime from which on its own span is stated
_BETWEEN = ("tp_nodes_gbs", "ring_hop_s", "pipeline_hop_s", "handover_s", "stall_s", "collective_stall_s")
_TP = ("host_layer_tp_s", "tp_exposed_share", *_BETWEEN)
_HF = ("score_bytes", "liger_elementwise", "liger_logits")
_COMPILED = ("compiled_elementwise", "fp8_share")
_AMPERE = ("ampere_matrix", "ampere_attention")
_BLACKWELL = ("blackwell_matrix", "blackwell_attention")
_ELSEWHERE = (*_COMPILED, *_BLACKWELL, "host_shard_s")


def _all_but(*names: str) -> tuple[str, ...]:
    return tuple(name for name in DENSE_RATES if name not in (*_ELSEWHERE, *names))


FREE = {
    "nanotron": _all_but(*_HF, *_AMPERE, "gather_exposed_share", "narrow_head_attention"),
    "llm-foundry": _all_but(*_TP, *_HF, "half_nodes", "reduce_exposed_share", "logits_bytes", "rank_spread"),
    "megatron": (
        "matrix_share",
        "attention_share",
        "elementwise_bytes",
        "tp_exposed_share",
        "gather_exposed_share",
        *_BLACKWELL,
    ),
    "torchtitan": ("matrix_share", "elementwise_bytes", "gather_exposed_share", "tp_exposed_share", *_COMPILED),
    "transformers": _all_but(
        *_TP,
        *_AMPERE,
        "half_nodes",
        "gather_exposed_share",
        "attention_share",
        "matrix_share",
        "narrow_head_attention",
        "optimizer_passes",
    ),
}

FIRMNESS = {"nanotron": FIRM}
_BESIDE = {"megatron": {"host_layer_s", "ring_hop_s"}}  # on which its rows of mixtures depend


AXES = {
    "stack": "each stack, as one that nobody measured",
    "board": "each chip",
    "variant": "each board of which another has the same chip",
    "sharding": "each way of dividing",
    "seq_len": "the shorter and the longer half of lengths",
    "parameters": "the smaller and the larger half of models",
    "nodes": "the lower and the upper half of numbers of nodes",
}
"""What is left out in turn for each factor."""


def learned(rows: Sequence[Row], start: StackRates) -> StackRates:
    """The stack with rates and odds of a stall fitted on the rows."""
    stack = with_odds(rows, start)
    return with_odds(rows, fitted(rows, stack, FREE[start.name], FIRMNESS.get(start.name, LOOSE)))


def told_by(fits: Mapping[str, StackRates], known: Mapping[str, set[str]]) -> dict[str, list[float]]:
    """The values of each rate in the stacks that are fitted on rows which tell it."""
    return {
        rate: [getattr(fit, rate) for name, fit in fits.items() if rate in known[name] and rate in FREE[name]]
        for rate in DENSE_RATES
    }


def spans(folds: Sequence[Fold], stack: StackRates) -> dict[str, tuple[float, float]]:
    """10th and 90th percentile of measured over predicted throughput by regime, of all rows where it has few.

    The rows are those of a model that the fit has not seen. Stalled ones are left out: the chance of a stall says how
    many they are.
    """
    steady = [(regime(row.plan), ratio) for fold in folds for row, ratio in fold.steady_rows]
    found = {}
    for name in stack.span:
        own = [ratio for of, ratio in steady if of == name]
        values = own if len(own) >= FEWEST else [ratio for _, ratio in steady]
        low, high = np.percentile(1 / np.array(values), [10, 90])
        found[name] = (round(float(low), 2), round(float(high), 2))
    return found


class Fits:
    """All stacks fitted on their rows, with what they assume, and every fold."""

    def __init__(self, tables: Path) -> None:
        self.rows = {name: list(read(tables / source)) for name, (source, read) in SOURCES.items()}
        self.unnamed = {name: list(read(tables / source)) for name, (source, read) in UNNAMED.items()}
        before = {name: stacks()[name] for name in SOURCES}
        self.known = {
            name: depended_on(self.rows[name], start) | _BESIDE.get(name, set()) for name, start in before.items()
        }
        self.fits = {name: self.fit(name, before) for name in SOURCES}
        self.folds = {name: list(folds_of(self.rows[name], self.fits[name], self.learner(name))) for name in SOURCES}
        self.fits = {name: self.with_span(name) for name in SOURCES}
        self.folds = {name: [self.spanned(fold) for fold in folds] for name, folds in self.folds.items()}
        self.of_stacks = list(stacks_left_out(self.rows | self.unnamed))
        self.factors = {axis: self.factor(axis) for axis in AXES}
        self.pooled = replace(pooled(self.rows | self.unnamed), span=dict.fromkeys(stacks()[POOLED].span, (1.0, 1.0)))

    def fit(self, name: str, others: Mapping[str, StackRates]) -> StackRates:
        """The stack of that name on all its rows."""
        told = told_by({other: fit for other, fit in others.items() if other != name}, self.known)
        return learned(self.rows[name], with_assumptions(others[name], self.known[name], told))

    def learner(self, name: str) -> Callable[[Sequence[Row], StackRates], StackRates]:
        """How a stack is fitted on some of its rows: what they do not tell is what the other stacks tell."""
        told = told_by({other: fit for other, fit in self.fits.items() if other != name}, self.known)
        return lambda rows, start: learned(rows, with_assumptions(start, depended_on(rows, start), told))

    def with_span(self, name: str) -> StackRates:
        """The stack with the spread of models that it has not seen, and the runs that it was fitted on."""
        of_models = [fold for fold in self.folds[name] if fold.axis == "model"]
        return replace(self.fits[name], span=spans(of_models, self.fits[name]), measured=measured_runs(self.rows[name]))

    def spanned(self, fold: Fold) -> Fold:
        """The fold with its stack's spread."""
        return replace(fold, blind=replace(fold.blind, span=self.fits[fold.stack].span))

    def of_axis(self, axis: str) -> list[Fold]:
        """The folds that a factor is taken from."""
        if axis == "stack":
            return self.of_stacks
        return [fold for folds in self.folds.values() for fold in folds if fold.axis == axis]

    def factor(self, axis: str, without: Fold | None = None) -> float:
        """By how much the axis widens a range; of the other folds alone where one is to be judged by it.

        A way of dividing that a stack was never run with is as uncertain as a stack that nobody measured: what is
        known of it is what other stacks reach.
        """
        folds = [fold for fold in self.of_axis(axis) if without is None or fold.value != without.value]
        at_least = self.factor("stack") if axis == "sharding" else 1.0
        return max(factor(folds), at_least)

    def uncertainty(self, fold: Fold) -> dict[str, float]:
        """The factors that a fold is judged by: of all other folds."""
        return stacks()[POOLED].uncertainty | {axis: self.factor(axis, fold) for axis in AXES}

    @property
    def behind_factors(self) -> dict[str, tuple[float, int, str]]:
        """Each factor with the number of rows behind it, and what was left out."""
        return {
            axis: (self.factors[axis], sum(len(fold.rows) for fold in self.of_axis(axis)), f"left out: {what}")
            for axis, what in AXES.items()
        }
