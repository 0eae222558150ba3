"""Settings of the capture record that single remedies turn on."""

from diagnose.metrics.registry import Measured, Value, metric
from diagnose.metrics.setup import missing, or_unknown

GRAPH_LAUNCH = r"(cuda|hip)GraphLaunch|cuGraphLaunch"


@metric("flag", needs_gpu=False)
def filters_nan_losses(m: Measured) -> Value:
    """Whether the Trainer reads each loss to replace NaN and infinity (logging_nan_inf_filter)."""
    return or_unknown(m.record.flag("training_arguments.logging_nan_inf_filter"), m)


@metric("flag", needs_gpu=False)
def empties_cache(m: Measured) -> Value:
    """Whether the Trainer empties the caching allocator between steps (torch_empty_cache_steps)."""
    arguments = m.record.get("training_arguments")
    if not isinstance(arguments, dict) or "torch_empty_cache_steps" not in arguments:
        return missing(m)
    return arguments["torch_empty_cache_steps"] is not None


@metric("text", needs_gpu=False)
def compile_mode(m: Measured) -> Value:
    """The mode that the Trainer compiles with; "default" where none is set."""
    arguments = m.record.get("training_arguments")
    if not isinstance(arguments, dict) or "torch_compile_mode" not in arguments:
        return missing(m)
    return str(arguments["torch_compile_mode"] or "default")


@metric("flag")
def uses_cuda_graphs(m: Measured) -> Value:
    """Whether the host launches CUDA graphs."""
    return bool(m.timeline.matching(GRAPH_LAUNCH, "cuda_runtime", "cuda_driver", "runtime").any())


@metric("flag", needs_gpu=False)
def persistent_workers(m: Measured) -> Value:
    """Whether the DataLoader keeps its workers from one epoch to the next."""
    return or_unknown(m.record.flag("dataloader.persistent_workers"), m)


@metric("count", needs_gpu=False)
def prefetched_batches(m: Measured) -> Value:
    """Batches that each worker of the DataLoader prepares ahead (prefetch_factor)."""
    return or_unknown(m.record.number("dataloader.prefetch_factor"), m)


@metric("flag", needs_gpu=False)
def flash_attention_installed(m: Measured) -> Value:
    """Whether the flash-attn package is installed where the job ran."""
    if not isinstance(m.record.get("versions"), dict):
        return missing(m)
    return m.record.text("versions.flash_attn") is not None


@metric("flag", needs_gpu=False)
def expandable_segments(m: Measured) -> Value:
    """Whether the caching allocator may grow its segments (expandable_segments:True in PYTORCH_ALLOC_CONF)."""
    environment = m.record.get("environment")
    if not isinstance(environment, dict):
        return missing(m)
    found = [environment.get(name) for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")]
    return any("expandable_segments:True" in str(text) for text in found)
