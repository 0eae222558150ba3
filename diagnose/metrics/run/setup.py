"""The setup of the run, from the record that `diagnose run` writes next to the trace."""

import numpy as np

from diagnose.arrays import Ints
from diagnose.facts import Unknown, Value
from diagnose.formulas.supported_kernels import liger_types
from diagnose.metrics.kernel_groups.phases import recompute_spans, recomputed
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.trace.vocabulary import ANNOTATIONS, GRAPH_LAUNCH, OPS, OPTIMIZER_STEP

FETCH = r"enumerate\(DataLoader\)#"
_COMPILED = r"Torch-Compiled Region|## Call CompiledFxGraph|CompiledFunction"
_COMPILED_SHARE = 0.1  # of the model's kernels
ROOT_GRADIENT = r"aten::ones_like$"  # of the loss, one for each backward pass


@metric("text", needs_gpu=False)
def model_type(m: Measured) -> Value:
    """The model's type as transformers names it: llama, opt and so on."""
    return m.recorded(m.record.text("model.model_type"))


@metric("flag", needs_gpu=False)
def liger_supported(m: Measured) -> Value:
    """Whether Liger has kernels for the model type: by the installed Liger, else by a table of version 0.8.5."""
    kind = m.record.text("model.model_type")
    if kind is None:
        return m.unrecorded
    listed = m.record.get("versions.liger_model_types")
    return kind in (listed if isinstance(listed, list) else liger_types())


@metric("flag", needs_gpu=False)
def liger_asked(m: Measured) -> Value:
    """Whether the run asks for Liger kernels (use_liger_kernel)."""
    return m.recorded(m.record.flag("liger.asked"))


@metric("flag", needs_gpu=False)
def is_compiled(m: Measured) -> Value:
    """Whether the model is compiled with torch.compile, by the record, else by compiled code in the trace.

    Compiled code has to launch at least a tenth of the kernels outside the optimizer; less is some function outside the
    model.
    """
    recorded = m.record.flag("compiled")
    if recorded is not None:
        return recorded
    line = m.timeline
    if not len(line.rows_matching(_COMPILED, *ANNOTATIONS)) and not line.gpu.of_family("inductor").any():
        return m.unrecorded
    compiled = (line.gpu.of_family("inductor") | line.launched_under(_COMPILED)) & m.kernels
    of_model = m.kernels & ~line.launched_by_optimizer
    return not of_model.any() or bool((compiled & of_model).sum() >= _COMPILED_SHARE * of_model.sum())


@metric("text", needs_gpu=False)
def precision(m: Measured) -> Value:
    """The precision of products: "bf16", "fp16" (autocast or weights), "fp64" (weights), else "fp32"."""
    for name in ("bf16", "fp16"):
        if m.record.flag(f"training_arguments.{name}"):
            return name
    dtypes = m.record.get("model.dtypes")
    if not isinstance(dtypes, dict) or not dtypes:
        return m.unrecorded
    return {"bfloat16": "bf16", "float16": "fp16", "float64": "fp64"}.get(max(dtypes, key=lambda d: dtypes[d]), "fp32")


@metric("flag", needs_gpu=False)
def gradient_checkpointing(m: Measured) -> Value:
    """Whether activations are recomputed in the backward pass: the model says so, or a forward pass runs there.

    A loop that calls torch.utils.checkpoint itself sets no flag of the model.
    """
    flag = m.record.flag("model.gradient_checkpointing")
    return True if not flag and _recomputes(m) else m.recorded(flag)


def _recomputes(m: Measured) -> bool:
    """Whether a forward pass runs again: its kernels on a GPU, its operators on a CPU."""
    again = m.once(recomputed) if m.timeline.has_gpu else m.once(recompute_spans)
    return not isinstance(again, Unknown) and bool(again.any())


@metric("count", needs_gpu=False)
def micro_batch_size(m: Measured) -> Value:
    """Samples of one micro-batch on one device: as the trainer is set, else the first size that the tensors of the last
    batch share.
    """
    set_to = m.record.number("training_arguments.per_device_train_batch_size")
    if set_to is not None:
        return set_to
    shapes = m.record.get("batch.shapes")
    first = {sizes[0] for sizes in shapes.values() if sizes} if isinstance(shapes, dict) else set()
    return float(first.pop()) if len(first) == 1 else m.unrecorded


@metric("count", needs_gpu=False)
def accumulation_steps(m: Measured) -> Value:
    """Micro-batches of one optimizer step: the trainer's setting, else the batches that loaders gave in each step, if
    as many backward passes began and one optimizer stepped.
    """
    set_to = m.record.number("training_arguments.gradient_accumulation_steps")
    return m.recorded(m.once(_batches_with_gradients) if set_to is None else set_to)


def batches_of_a_step(m: Measured) -> float:
    """Micro-batches of one optimizer step, taken for one if they are not known."""
    steps = accumulation_steps(m)
    return 1.0 if isinstance(steps, Unknown) else float(steps)


def _batches_with_gradients(m: Measured) -> float | None:
    trace, line = m.timeline.trace, m.timeline
    updates, fetches, gradients = (
        _in_each_step(m, starts)
        for starts in (
            m.ranges(OPTIMIZER_STEP)[:, 0],
            trace.ts[line.rows_matching(FETCH, *ANNOTATIONS)],
            trace.ts[line.rows_matching(ROOT_GRADIENT, *OPS)],
        )
    )
    return fetches if updates == 1 and fetches == gradients else None


def _in_each_step(m: Measured, starts: Ints) -> float | None:
    """The number of starts in each counted step; None if steps differ, or have none."""
    host, at = m.timeline.steps.host, np.sort(starts)
    counts = np.unique(np.searchsorted(at, host[:, 1]) - np.searchsorted(at, host[:, 0]))
    return float(counts[0]) if len(counts) == 1 and counts[0] else None


@metric("count", needs_gpu=False)
def logging_interval_steps(m: Measured) -> Value:
    """Optimizer steps between two logs."""
    return m.recorded(m.record.number("training_arguments.logging_steps"))


@metric("flag", needs_gpu=False)
def filters_nan_losses(m: Measured) -> Value:
    """Whether the Trainer reads each loss to replace NaN and infinity (logging_nan_inf_filter)."""
    return m.recorded(m.record.flag("training_arguments.logging_nan_inf_filter"))


@metric("flag", needs_gpu=False)
def watches_memory_peaks(m: Measured) -> Value:
    """Whether the Trainer reads the memory of the process again and again in a thread (skip_memory_metrics)."""
    if not m.record:
        return m.unrecorded
    return m.record.flag("training_arguments.skip_memory_metrics") is False


@metric("text", needs_gpu=False)
def compile_mode(m: Measured) -> Value:
    """The mode that the Trainer compiles with; "default" if none is set."""
    arguments = m.record.get("training_arguments")
    if not isinstance(arguments, dict) or "torch_compile_mode" not in arguments:
        return m.unrecorded
    return str(arguments["torch_compile_mode"] or "default")


@metric("flag")
def uses_cuda_graphs(m: Measured) -> Value:
    """Whether the host launches CUDA graphs."""
    return len(m.timeline.rows_matching(GRAPH_LAUNCH, "cuda_runtime", "cuda_driver", "runtime")) > 0
