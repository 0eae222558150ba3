"""How the run is set up, from the record that `diagnose run` writes beside the trace."""

import json
from functools import lru_cache
from importlib import resources

from diagnose.facts import Value
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric

_LIGER_TABLE = resources.files("diagnose.data") / "liger_model_types.json"
GRAPH_LAUNCH = r"(cuda|hip)GraphLaunch|cuGraphLaunch"


@metric("text", needs_gpu=False)
def model_type(m: Measured) -> Value:
    """The model's type as transformers names it: llama, opt and so on."""
    return m.recorded(m.record.text("model.model_type"))


@lru_cache(maxsize=1)
def _known_liger_types() -> frozenset[str]:
    return frozenset(json.loads(_LIGER_TABLE.read_text(encoding="utf-8"))["model_types"])


@metric("flag", needs_gpu=False)
def liger_supported(m: Measured) -> Value:
    """Whether Liger has kernels for the model type: by the installed Liger, else by a table of version 0.8.5."""
    kind = m.record.text("model.model_type")
    if kind is None:
        return m.unrecorded
    listed = m.record.get("versions.liger_model_types")
    return kind in (listed if isinstance(listed, list) else _known_liger_types())


@metric("flag", needs_gpu=False)
def liger_asked(m: Measured) -> Value:
    """Whether the run asks for Liger kernels (use_liger_kernel)."""
    return m.recorded(m.record.flag("liger.asked"))


@metric("flag", needs_gpu=False)
def is_compiled(m: Measured) -> Value:
    """Whether the model is compiled with torch.compile: by the record, else by ranges of compiled code in the trace."""
    recorded = m.record.flag("compiled")
    if recorded is not None:
        return recorded
    marks = ("Torch-Compiled Region", "## Call CompiledFxGraph", "CompiledFunction")
    if any(name.startswith(marks) for name in m.timeline.trace.names) or m.timeline.gpu.of_family("inductor").any():
        return True
    return m.unrecorded


@metric("text", needs_gpu=False)
def precision(m: Measured) -> Value:
    """What products run in: "bf16", "fp16" (autocast or weights), else "fp32"."""
    for name in ("bf16", "fp16"):
        if m.record.flag(f"training_arguments.{name}"):
            return name
    dtypes = m.record.get("model.dtypes")
    if not isinstance(dtypes, dict) or not dtypes:
        return m.unrecorded
    return {"bfloat16": "bf16", "float16": "fp16"}.get(max(dtypes, key=lambda d: dtypes[d]), "fp32")


@metric("flag", needs_gpu=False)
def gradient_checkpointing(m: Measured) -> Value:
    """Whether activations are recomputed in the backward pass."""
    return m.recorded(m.record.flag("model.gradient_checkpointing"))


@metric("count", needs_gpu=False)
def micro_batch_size(m: Measured) -> Value:
    """Samples of one micro-batch on one device."""
    return m.recorded(m.record.number("training_arguments.per_device_train_batch_size"))


@metric("count", needs_gpu=False)
def accumulation_steps(m: Measured) -> Value:
    """Micro-batches of one optimizer step."""
    return m.recorded(m.record.number("training_arguments.gradient_accumulation_steps"))


@metric("share", "tokens of the batches seen", needs_gpu=False)
def padding_share(m: Measured) -> Value:
    """Tokens that are padding."""
    return m.recorded(m.record.number("batch.padding_share"))


@metric("count", needs_gpu=False)
def logging_interval_steps(m: Measured) -> Value:
    """Optimizer steps between two logs."""
    return m.recorded(m.record.number("training_arguments.logging_steps"))


@metric("flag", needs_gpu=False)
def filters_nan_losses(m: Measured) -> Value:
    """Whether the Trainer reads each loss to replace NaN and infinity (logging_nan_inf_filter)."""
    return m.recorded(m.record.flag("training_arguments.logging_nan_inf_filter"))


@metric("text", needs_gpu=False)
def compile_mode(m: Measured) -> Value:
    """The mode that the Trainer compiles with; "default" where none is set."""
    arguments = m.record.get("training_arguments")
    if not isinstance(arguments, dict) or "torch_compile_mode" not in arguments:
        return m.unrecorded
    return str(arguments["torch_compile_mode"] or "default")


@metric("flag")
def uses_cuda_graphs(m: Measured) -> Value:
    """Whether the host launches CUDA graphs."""
    return bool(m.timeline.matching(GRAPH_LAUNCH, "cuda_runtime", "cuda_driver", "runtime").any())
