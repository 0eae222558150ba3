"""The tokens of a step."""

import msgspec
import numpy as np

from diagnose import intervals as iv
from diagnose.facts import Unknown, Value, analysis_option, capture_setting
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.trace.arguments import tensor_sizes
from diagnose.trace.vocabulary import EVAL, OPS

NO_TOKENS = Unknown(
    "the tokens of a step are not known", capture_setting("diagnose run", analysis_option("--tokens-per-step"))
)


class Tokens(msgspec.Struct, frozen=True):
    """Tokens of one step on one rank, padding included; `sequence` is the length of one sequence, None if unknown."""

    per_step: float
    sequence: float | None
    source: str


def tokens_of(m: Measured) -> Tokens | Unknown:
    """Tokens of a step: as stated, else looked up in the embedding during it, else of the batches recorded."""
    sequence, looked_up, recorded = m.settings.seq_len, m.once(_looked_up), _recorded(m)
    counted = looked_up or recorded
    if m.settings.tokens_per_step:
        length = sequence or (counted.sequence if counted else None)
        return Tokens(m.settings.tokens_per_step, length, "--tokens-per-step")
    if counted is None:
        return NO_TOKENS
    return Tokens(counted.per_step, sequence or counted.sequence, counted.source)


def _recorded(m: Measured) -> Tokens | None:
    tokens = m.record.number("batch.tokens")
    if not tokens:
        return None
    micro_batches = m.record.number("training_arguments.gradient_accumulation_steps")
    shape = m.record.get("batch.shapes.input_ids")
    sequence = shape[-1] or None if shape else None
    return Tokens(tokens * (micro_batches or 1), sequence, "the batches recorded by diagnose run")


def _looked_up(m: Measured) -> Tokens | None:
    """Tokens looked up in the largest embedding table, if it is a vocabulary: its size is a matrix product's width,
    too.
    """
    trace, steps = m.timeline.trace, m.timeline.steps
    rows = np.flatnonzero(trace.named_in(lambda name: name == "aten::embedding", *OPS) & (trace.shape >= 0))
    trains = iv.subtract(steps.host, m.ranges(EVAL))  # an evaluation's tokens are no step's
    rows = rows[iv.which_holds(trains, trace.ts[rows]) >= 0]
    lookups = [d for r in rows if len(d := tensor_sizes(trace.shapes[trace.shape[r]][0])) > 1 and len(d[0]) == 2]
    if not lookups or not steps.count:
        return None
    vocabulary = max(d[0][0] for d in lookups)
    if vocabulary not in product_widths(m):
        return None
    indices = [d[1] for d in lookups if d[0][0] == vocabulary]
    tokens = sum(int(np.prod(dims)) for dims in indices)
    sequence = indices[-1][-1] or None if indices[-1] else None
    return Tokens(tokens / steps.count, sequence, "the embedding lookups in the trace")


def product_widths(m: Measured) -> set[int]:
    """All sizes of the first operands of matrix products."""
    trace = m.timeline.trace
    rows = np.flatnonzero(trace.named_in(lambda name: name in ("aten::mm", "aten::addmm"), *OPS) & (trace.shape >= 0))
    distinct = np.unique(trace.shape[rows])
    return {size for s in distinct for dims in tensor_sizes(trace.shapes[s][0]) for size in dims}


@metric("count", needs_gpu=False)
def tokens_per_step(m: Measured) -> Value:
    """Tokens of one optimizer step on one rank, padding included: looked up in the embedding, else recorded."""
    tokens = tokens_of(m)
    return tokens if isinstance(tokens, Unknown) else tokens.per_step


@metric("count", needs_gpu=False)
def tokens_per_s(m: Measured) -> Value:
    """Tokens per second of one rank over the counted steps, padding included."""
    tokens = tokens_of(m)
    return tokens if isinstance(tokens, Unknown) else tokens.per_step / m.step_s
