"""The FLOPs that a step needs by every convention in use."""

from collections.abc import Mapping

from diagnose.attribution.causes import GRAPH_CAPTURE
from diagnose.facts import Unknown, analysis_option, capture_setting, nothing_helps
from diagnose.formulas.mfu_conventions import MFU_AS
from diagnose.formulas.model import ModelShape
from diagnose.formulas.model_flops import (
    CONVENTIONS,
    attention_flops,
    dense_flops_per_token,
    flops_per_token,
    partly_frozen_flops_per_token,
)
from diagnose.formulas.unknown_models import why_unknown
from diagnose.metrics.kernel_groups.phases import recompute_spans
from diagnose.metrics.measured import Measured
from diagnose.metrics.model.tokens import tokens_of
from diagnose.metrics.unknowns import GRAPHS_CAPTURED, NO_MODEL, NO_SHAPES
from diagnose.roofline.flops import count_within

MIN_COVERED = 0.9
FROZEN_FROM = 0.001
COUNTS_AGREE = 0.01
_HIDDEN = Unknown(
    "activations are computed again (gradient checkpointing), and the trace does not tell by which operators",
    analysis_option("--flops-per-step"),
)
NUMERATORS = {
    "given": "FLOPs per step as given by --flops-per-step",
    "palm": "PaLM: 6 FLOPs per multiplied parameter and token, plus attention without a causal discount",
    "palm-frozen": "PaLM with frozen weights: 6 FLOPs per trained and 4 per frozen parameter and token, plus attention",
    "causal": "PaLM with only the attention that the causal mask lets through",
    "6n": "6 FLOPs per parameter and token, attention left out",
    "6n-attention": "6 FLOPs per parameter and token, plus attention without a causal discount",
    "hf": "transformers' floating_point_ops: 6 FLOPs per parameter outside the embeddings, attention left out",
    "operators": "FLOPs of leaf matrix, convolution and attention operators that ran",
}
ONCE = ", those of a forward pass that runs again in the backward pass left out"


def model_flops(m: Measured) -> Mapping[str, float] | Unknown:
    """FLOPs of one step on one GPU by convention, the declared numerator first.

    The user's stated figure comes first, then the convention that the user names (`Settings.mfu_as`), then PaLM's if
    the model's sizes and the tokens are known, then 6N with a stated number of parameters, then the operators that ran,
    without recomputation.
    """
    if captures_graphs_alone(m):
        return GRAPHS_CAPTURED
    by_convention: dict[str, float] = {}
    if m.settings.flops_per_step:
        by_convention["given"] = m.settings.flops_per_step
    by_size = _by_size(m)
    named = MFU_AS[m.settings.mfu_as].flops if m.settings.mfu_as else None
    if named in by_size:
        by_convention[named] = by_size[named]
    by_convention |= by_size
    needed = needed_flops(m)
    if not isinstance(needed, Unknown):
        by_convention["operators"] = needed
    return by_convention or _neither(m, needed if isinstance(needed, Unknown) else NO_SHAPES)


def _neither(m: Measured, needed: Unknown) -> Unknown:
    """Why FLOPs follow neither from the sizes of the model nor from its operators."""
    why = why_uncounted(m)
    return Unknown(f"{why}, and {needed.because}", needed.capture) if why else needed


def why_uncounted(m: Measured) -> str:
    """Why no formula gives the FLOPs of the recorded model; empty if one does, or no sizes are recorded."""
    shape = model_shape(m)
    return shape.because if isinstance(shape, Unknown) and shape is not NO_MODEL else ""


def needed_flops(m: Measured) -> float | Unknown:
    """FLOPs of the operators of one step without those of a forward pass that runs again inside the backward pass."""
    counted = counted_flops(m)
    if isinstance(counted, Unknown):
        return counted
    again = m.once(_recomputed_flops)
    return again if isinstance(again, Unknown) else counted - again


def _recomputed_flops(m: Measured) -> float | Unknown:
    """FLOPs of one step that are recomputed; unknown if the record says that some are and the trace shows none."""
    spans = m.once(recompute_spans)
    again = 0.0 if isinstance(spans, Unknown) else count_within(m.timeline, spans)
    return _HIDDEN if not again and m.record.flag("model.gradient_checkpointing") else again


def counted_flops(m: Measured) -> float | Unknown:
    """FLOPs of the operators of one step, recomputation included; unknown if too few matrix kernels have shapes."""
    if captures_graphs_alone(m):
        return GRAPHS_CAPTURED
    counted = m.flops
    if counted is None or not counted.per_step:
        return NO_SHAPES
    if counted.covered_share < MIN_COVERED:
        return Unknown(
            f"{100 * (1 - counted.covered_share):.0f} % of the matrix-kernel time is under no operator with shapes",
            capture_setting("record_shapes=True", analysis_option("--flops-per-step")),
        )
    return counted.per_step


def captures_graphs_alone(m: Measured) -> bool:
    """Whether graphs are captured in the counted steps and no matrix kernel runs in them."""
    captured = m.cause_ns.get(GRAPH_CAPTURE, 0) > 0
    return captured and not bool((m.kernels & m.timeline.gpu.is_compute_bound).any())


def _by_size(m: Measured) -> dict[str, float]:
    tokens, shape = tokens_of(m), model_shape(m)
    if isinstance(tokens, Unknown):
        return {}
    per_gpu = tokens.per_step / (1 + m.timeline.other_gpus.count)
    if m.settings.params:
        return {"6n": dense_flops_per_token(m.settings.params) * per_gpu}
    if isinstance(shape, Unknown) or tokens.sequence is None:
        return {}
    by_convention: dict[str, float] = {}
    for convention in CONVENTIONS:
        by_convention[convention] = flops_per_token(shape, tokens.sequence, convention) * per_gpu
    frozen = _frozen_flops_per_token(m, shape, tokens.sequence)
    return by_convention if frozen is None else {"palm-frozen": frozen * per_gpu} | by_convention


def _frozen_flops_per_token(m: Measured, shape: ModelShape, tokens: float) -> float | None:
    """PaLM's count of a model with frozen weights; None when all are trained, or it is not recorded."""
    everything, trained = m.record.number("model.parameters"), m.record.number("model.trainable")
    if everything is None or trained is None or not _has_frozen(m):
        return None
    adapters = max(everything - shape.parameters, 0.0)
    multiplied = shape.matmul_parameters + adapters
    trained_part = min(trained, multiplied)
    return partly_frozen_flops_per_token(multiplied - trained_part, trained_part) + attention_flops(shape, tokens)


def model_shape(m: Measured) -> ModelShape | Unknown:
    """The recorded model's sizes; unknown without a record, or if the configuration does not give its parameter count.

    Adapters add parameters that are not in the configuration, so a model with frozen weights may have more.
    """
    kind, config = m.record.text("model.model_type"), m.record.get("model.config")
    if kind is None or not isinstance(config, Mapping):
        return NO_MODEL
    built = m.record.text("model.class")
    shape, counted = ModelShape.from_config(kind, config, built), m.record.number("model.parameters")
    if shape is None:
        return _untold(why_unknown(kind, {**config, "text_config": m.record.get("model.text_config")}, built))
    if counted is None:
        return shape
    fewer, more = shape.parameters * (1 - COUNTS_AGREE), shape.parameters * (1 + COUNTS_AGREE)
    if fewer <= counted and (counted <= more or _has_frozen(m)):
        return shape
    given = f"its configuration gives {shape.parameters:,} parameters, and it has {counted:,.0f}"
    return _untold(f"this {kind} model is not as transformers builds it: {given}")


def _untold(why: str) -> Unknown:
    return Unknown(why, nothing_helps("the recorded sizes do not tell all parts of the model"))


def _has_frozen(m: Measured) -> bool:
    everything, trained = m.record.number("model.parameters"), m.record.number("model.trainable")
    return everything is not None and trained is not None and 0 < trained < (1 - FROZEN_FROM) * everything
