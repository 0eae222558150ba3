"""The FLOPs that a step needs by every convention in use, and the tokens they are for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from diagnose.facts import Unknown, analysis_option, capture_setting
from diagnose.formulas.model import ModelShape
from diagnose.formulas.model_flops import (
    CONVENTIONS,
    attention_flops,
    dense_flops_per_token,
    flops_per_token,
    partly_frozen_flops_per_token,
)
from diagnose.metrics.groups import argument_sizes
from diagnose.metrics.registry import NO_SHAPES, Measured, Value, metric
from diagnose.trace.vocabulary import OPS

MIN_COVERED = 0.9
FROZEN_FROM = 0.001
COUNTS_AGREE = 0.01
NO_TOKENS = Unknown(
    "the tokens of a step are not known", capture_setting("diagnose run", analysis_option("--tokens-per-step"))
)
NUMERATORS = {
    "given": "FLOPs per step as given by --flops-per-step",
    "palm": "PaLM: 6 FLOPs per multiplied parameter and token, plus attention without a causal discount",
    "palm-frozen": "PaLM with frozen weights: 6 FLOPs per trained and 4 per frozen parameter and token, plus attention",
    "causal": "PaLM with only the attention that the causal mask lets through",
    "6n": "6 FLOPs per parameter and token, attention left out",
    "hf": "transformers' floating_point_ops: 6 FLOPs per parameter outside the embeddings, attention left out",
    "operators": "FLOPs of leaf matrix, convolution and attention operators that ran",
}


@dataclass(frozen=True)
class Tokens:
    """Tokens of one step on one rank, padding included; `sequence` is the length of one sequence, None if unknown."""

    per_step: float
    sequence: float | None
    source: str


def model_flops(m: Measured) -> Mapping[str, float] | Unknown:
    """FLOPs of one step on one rank by convention, the declared numerator first.

    What the user states comes first, then PaLM's count where the model's sizes and the tokens are known, then 6N with
    a stated number of parameters, then the operators that ran.
    """
    found: dict[str, float] = {}
    if m.settings.flops_per_step:
        found["given"] = m.settings.flops_per_step
    found |= _by_size(m)
    counted = counted_flops(m)
    if not isinstance(counted, Unknown):
        found["operators"] = counted
    return found or (counted if isinstance(counted, Unknown) else NO_SHAPES)


def counted_flops(m: Measured) -> float | Unknown:
    """FLOPs of the operators of one step, recomputation included; unknown where too few matrix kernels have shapes."""
    counted = m.flops
    if counted is None or not counted.per_step:
        return NO_SHAPES
    if counted.covered_share < MIN_COVERED:
        return Unknown(
            f"{100 * (1 - counted.covered_share):.0f} % of the matrix-kernel time is under no operator with shapes",
            capture_setting("record_shapes=True", analysis_option("--flops-per-step")),
        )
    return counted.per_step


def _by_size(m: Measured) -> dict[str, float]:
    tokens, shape = tokens_of(m), model_shape(m)
    if isinstance(tokens, Unknown):
        return {}
    if m.settings.params:
        return {"6n": dense_flops_per_token(m.settings.params) * tokens.per_step}
    if shape is None or tokens.sequence is None:
        return {}
    found: dict[str, float] = {}
    for convention in CONVENTIONS:
        found[convention] = flops_per_token(shape, tokens.sequence, convention) * tokens.per_step
    frozen = _frozen_flops_per_token(m, shape, tokens.sequence)
    return found if frozen is None else {"palm-frozen": frozen * tokens.per_step} | found


def _frozen_flops_per_token(m: Measured, shape: ModelShape, tokens: float) -> float | None:
    """PaLM's count of a model with frozen weights; None when all are trained, or it is not recorded."""
    everything, trained = m.record.number("model.parameters"), m.record.number("model.trainable")
    if everything is None or trained is None or not _has_frozen(m):
        return None
    adapters = max(everything - shape.parameters, 0.0)
    multiplied = shape.matmul_parameters + adapters
    own = min(trained, multiplied)
    return partly_frozen_flops_per_token(multiplied - own, own) + attention_flops(shape, tokens)


def model_shape(m: Measured) -> ModelShape | None:
    """The recorded model's sizes; None without a record, and where the configuration does not give its parameters.

    Adapters add parameters that a configuration does not tell: a model with frozen weights may have more.
    """
    kind, config = m.record.text("model.model_type"), m.record.get("model.config")
    if kind is None or not isinstance(config, Mapping):
        return None
    shape = ModelShape.from_config(kind, config, m.record.text("model.class"))
    counted = m.record.number("model.parameters")
    if shape is None or counted is None:
        return shape
    fewer, more = shape.parameters * (1 - COUNTS_AGREE), shape.parameters * (1 + COUNTS_AGREE)
    return shape if fewer <= counted and (counted <= more or _has_frozen(m)) else None


def _has_frozen(m: Measured) -> bool:
    everything, trained = m.record.number("model.parameters"), m.record.number("model.trainable")
    return everything is not None and trained is not None and 0 < trained < (1 - FROZEN_FROM) * everything


def tokens_of(m: Measured) -> Tokens | Unknown:
    """Tokens of a step: as stated, else looked up in the embedding during it, else of the batches recorded."""
    sequence, looked_up, recorded = m.settings.seq_len, _looked_up(m), _recorded(m)
    found = looked_up or recorded
    if m.settings.tokens_per_step:
        length = sequence or (found.sequence if found else None)
        return Tokens(m.settings.tokens_per_step, length, "--tokens-per-step")
    if found is None:
        return NO_TOKENS
    return Tokens(found.per_step, sequence or found.sequence, found.source)


def _recorded(m: Measured) -> Tokens | None:
    tokens = m.record.number("batch.tokens")
    if not tokens:
        return None
    micro_batches = m.record.number("training_arguments.gradient_accumulation_steps")
    shape = m.record.get("batch.shapes.input_ids")
    sequence = shape[-1] or None if shape else None
    return Tokens(tokens * (micro_batches or 1), sequence, "the batches recorded by diagnose run")


def _looked_up(m: Measured) -> Tokens | None:
    """Indices of the largest embedding table, where that table is also a matrix product's width: a vocabulary."""
    trace, steps = m.timeline.trace, m.timeline.steps
    rows = np.flatnonzero(trace.rows_of(*OPS) & _named(m, "aten::embedding") & (trace.shape >= 0))
    host = steps.host
    at = np.searchsorted(host[:, 0], trace.ts[rows], side="right") - 1
    rows = rows[(at >= 0) & (trace.ts[rows] < host[np.maximum(at, 0), 1])]
    lookups = [d for r in rows if len(d := argument_sizes(trace.shapes[trace.shape[r]][0])) > 1 and len(d[0]) == 2]
    if not lookups or not steps.count:
        return None
    vocabulary = max(d[0][0] for d in lookups)
    if vocabulary not in _product_widths(m):
        return None
    own = [d[1] for d in lookups if d[0][0] == vocabulary]
    tokens = sum(int(np.prod(indices)) for indices in own)
    return Tokens(tokens / steps.count, own[-1][-1] or None if own[-1] else None, "the embedding lookups in the trace")


def _product_widths(m: Measured) -> set[int]:
    trace = m.timeline.trace
    rows = np.flatnonzero(trace.rows_of(*OPS) & _named(m, "aten::mm", "aten::addmm") & (trace.shape >= 0))
    distinct = np.unique(trace.shape[rows])
    return {size for s in distinct for dims in argument_sizes(trace.shapes[s][0]) for size in dims}


def _named(m: Measured, *names: str) -> Any:
    trace = m.timeline.trace
    return trace.named(np.array([name in names for name in trace.names], bool))


@metric("count", needs_gpu=False)
def tokens_per_step(m: Measured) -> Value:
    """Tokens of one optimizer step on one rank, padding included: looked up in the embedding, else recorded."""
    found = tokens_of(m)
    return found if isinstance(found, Unknown) else found.per_step


@metric("count", needs_gpu=False)
def tokens_per_s(m: Measured) -> Value:
    """Tokens per second of one rank over the counted steps, padding included."""
    found = tokens_of(m)
    return found if isinstance(found, Unknown) else found.per_step / step_s(m)


def step_s(m: Measured) -> float:
    """Mean seconds of a counted step."""
    return max(m.attribution.total_ns, 1) / max(m.timeline.steps.count, 1) / 1e9
