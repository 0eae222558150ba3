"""Rows A and Q: Amdahl, step time over batch size, and the predicted gain of single changes.

Rows that predict one table of the ladder from another name both; their batch sizes are its batch sizes.
"""

from diagnose.formulas.batch_model import BatchModel, recompute_cost_s, recompute_gain_s, recompute_pays
from diagnose.formulas.named_models import NAMED_MODELS
from diagnose.formulas.throughput import step_s
from worked_examples import formulas, predict, traffic
from worked_examples.common import LLAMA, MS, Check, Inputs, bandwidth, tokens

_TF32_FLOPS, _BF16_FLOPS = 330e12, 700e12  # what matrix products reach on the ladder's GPU
_AMP_BATCH = 5


def _fitted(x: Inputs) -> dict[str, float]:
    """The line through two batch sizes: a in ms, b in ms per sample."""
    steps = (step_s(x[f"B{i}"], tokens(x), x[f"thr{i}"]) for i in (1, 2))
    model = formulas.line_through(x["B1"], next(steps), x["B2"], next(steps))
    return {"a": MS * model.fixed_s, "b": MS * model.per_sample_s}


def _saved_ms(batch: int) -> Check:
    def saved(x: Inputs) -> float:
        size = x.get("B", batch)
        return MS * (step_s(size, tokens(x), x["thr_before"]) - step_s(size, tokens(x), x["thr_after"]))

    return saved


def _attention_ms(x: Inputs) -> float:
    return MS * predict.bytes_s(traffic.eager_attention_bytes(x["B"], x["H"], x["T"], x["L"]), bandwidth(x))


def _logits_ms(x: Inputs) -> float:
    return MS * predict.bytes_s(traffic.logit_chain_bytes(x["B"], x["T"], x["V"]), bandwidth(x))


def _parameters(x: Inputs) -> int:
    return x.get("N", NAMED_MODELS[LLAMA].parameters)


def _optimizer_s(x: Inputs) -> float:
    return predict.optimizer_s(_parameters(x), bandwidth(x))


def _loss_s(x: Inputs, batch: int) -> float:
    shape = NAMED_MODELS[LLAMA]
    return predict.loss_accumulation_s(batch, tokens(x), shape.vocab, shape.hidden, bandwidth(x))


def _predicted_rate(batch: int, other_batch: int, fused_loss: bool = False) -> Check:
    """Rate at another batch size: optimizer and clipping stay, the loss accumulates once for each of its chunks."""

    def rate(x: Inputs) -> float:
        fixed, other_fixed = _optimizer_s(x), _optimizer_s(x)
        if fused_loss:
            fixed, other_fixed = fixed + _loss_s(x, batch), other_fixed + _loss_s(x, other_batch)
        measured = step_s(batch, tokens(x), x[f"thr{batch}"])
        return predict.rate_at_batch(fixed, measured, batch, other_fixed, other_batch, tokens(x))

    return rate


def _amp_speedup(x: Inputs) -> float:
    before_s = x["before_ms"] / MS
    cast_s = predict.bytes_s(traffic.amp_cast_bytes(_parameters(x)), bandwidth(x))
    return before_s / predict.amp_sample_s(before_s, x["F"], _TF32_FLOPS, _BF16_FLOPS, cast_s, _AMP_BATCH)


def _checkpointing(x: Inputs) -> tuple[float, float, bool]:
    """Gain and cost in ms per sample, and whether the gain is larger."""
    model, larger = BatchModel(x["a"] / MS, x["b"] / MS), x.get("B2", float("inf"))
    gain, cost = recompute_gain_s(model, x["B1"], larger), recompute_cost_s(model)
    return MS * gain, MS * cost, recompute_pays(model, x["B1"], larger)


ROWS: dict[str, Check] = {
    "A01": lambda x: formulas.amdahl_speedup(x["f"], x["s"]),
    "A02": lambda x: formulas.amdahl_bound(x["f"]),
    "A03": _fitted,
    "A04": _fitted,
    "A05": _fitted,
    "A06": _saved_ms(7),
    "A07": _attention_ms,
    "A08": _saved_ms(14),
    "A09": _logits_ms,
    "A10": lambda x: formulas.recompute_factor(x.get("recomputed_share", 1.0)),
    "A11": lambda x: formulas.hfu_share(x["mfu"], x.get("recomputed_share", 1.0)),
    "A12": lambda x: formulas.accumulated_step_s(x["k"], x["T_micro"], x["T_sync"]),
    "Q01": lambda x: MS * _optimizer_s(x),
    "Q02": _predicted_rate(5, 7),
    "Q03": _predicted_rate(7, 14),
    "Q04": _predicted_rate(14, 37, fused_loss=True),
    "Q05": _amp_speedup,
    "Q06": lambda x: MS * predict.bf16_weights_saving_s(_parameters(x), bandwidth(x)),
    "Q07": lambda x: MS * predict.fused_adamw_saving_s(_parameters(x), bandwidth(x)),
    "Q08": _checkpointing,
    "Q09": lambda x: MS * predict.bucket_view_saving_s(x["G"], bandwidth(x)),
}
