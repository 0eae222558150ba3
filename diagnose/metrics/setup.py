"""How the run is set up, from the record that `diagnose run` writes beside the trace."""

import json
from functools import lru_cache
from pathlib import Path

from diagnose.facts import DIAGNOSE_RUN, Unknown, nothing_helps
from diagnose.metrics.registry import Measured, Value, metric

NO_RECORD = Unknown("the trace comes without a capture record", DIAGNOSE_RUN)
NOT_RECORDED = Unknown("the job does not say: no Trainer, model or token batch was seen", nothing_helps("it has none"))
_LIGER_TABLE = Path(__file__).parent.parent / "data" / "liger_model_types.json"


def missing(m: Measured) -> Unknown:
    """Why a setting is not known."""
    return NOT_RECORDED if m.record else NO_RECORD


def or_unknown(value: Value | None, m: Measured) -> Value:
    """The recorded value, or why it is not known."""
    return missing(m) if value is None else value


@metric("text", needs_gpu=False)
def attention_implementation(m: Measured) -> Value:
    """The model's attention: eager, sdpa, flash_attention_2 and so on."""
    return or_unknown(m.record.text("model.attn_implementation"), m)


@metric("text", needs_gpu=False)
def model_type(m: Measured) -> Value:
    """The model's type as transformers names it: llama, opt and so on."""
    return or_unknown(m.record.text("model.model_type"), m)


@lru_cache(maxsize=1)
def _known_liger_types() -> frozenset[str]:
    return frozenset(json.loads(_LIGER_TABLE.read_text(encoding="utf-8"))["model_types"])


@metric("flag", needs_gpu=False)
def liger_supported(m: Measured) -> Value:
    """Whether Liger has kernels for the model type: by the installed Liger, else by a table of version 0.8.5."""
    kind = m.record.text("model.model_type")
    if kind is None:
        return missing(m)
    listed = m.record.get("versions.liger_model_types")
    return kind in (listed if isinstance(listed, list) else _known_liger_types())


@metric("flag", needs_gpu=False)
def liger_asked(m: Measured) -> Value:
    """Whether the run asks for Liger kernels (use_liger_kernel)."""
    return or_unknown(m.record.flag("liger.asked"), m)


@metric("flag", needs_gpu=False)
def is_compiled(m: Measured) -> Value:
    """Whether the model is compiled with torch.compile: by the record, else by ranges of compiled code in the trace."""
    recorded = m.record.flag("compiled")
    if recorded is not None:
        return recorded
    marks = ("Torch-Compiled Region", "## Call CompiledFxGraph", "CompiledFunction")
    if any(name.startswith(marks) for name in m.timeline.trace.names) or m.timeline.gpu.of_family("inductor").any():
        return True
    return missing(m)


@metric("text", needs_gpu=False)
def precision(m: Measured) -> Value:
    """What products run in: "bf16", "fp16" (autocast or weights), else "fp32"."""
    for name in ("bf16", "fp16"):
        if m.record.flag(f"training_arguments.{name}"):
            return name
    dtypes = m.record.get("model.dtypes")
    if not isinstance(dtypes, dict) or not dtypes:
        return missing(m)
    return {"bfloat16": "bf16", "float16": "fp16"}.get(max(dtypes, key=lambda d: dtypes[d]), "fp32")


@metric("count", needs_gpu=False)
def loader_worker_count(m: Measured) -> Value:
    """Worker processes of the DataLoader."""
    return or_unknown(m.record.number("dataloader.num_workers"), m)


@metric("flag", needs_gpu=False)
def pinned_memory(m: Measured) -> Value:
    """Whether the DataLoader pins its batches."""
    return or_unknown(m.record.flag("dataloader.pin_memory"), m)


@metric("flag", needs_gpu=False)
def gradient_checkpointing(m: Measured) -> Value:
    """Whether activations are recomputed in the backward pass."""
    return or_unknown(m.record.flag("model.gradient_checkpointing"), m)


@metric("count", needs_gpu=False)
def micro_batch_size(m: Measured) -> Value:
    """Samples of one micro-batch on one device."""
    return or_unknown(m.record.number("training_arguments.per_device_train_batch_size"), m)


@metric("count", needs_gpu=False)
def accumulation_steps(m: Measured) -> Value:
    """Micro-batches of one optimizer step."""
    return or_unknown(m.record.number("training_arguments.gradient_accumulation_steps"), m)


@metric("share", "tokens of the batches seen", needs_gpu=False)
def padding_share(m: Measured) -> Value:
    """Tokens that are padding."""
    return or_unknown(m.record.number("batch.padding_share"), m)


@metric("count", needs_gpu=False)
def logging_interval_steps(m: Measured) -> Value:
    """Optimizer steps between two logs."""
    return or_unknown(m.record.number("training_arguments.logging_steps"), m)
