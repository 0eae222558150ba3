"""Device memory, and the settings of its allocator."""

from diagnose.facts import DIAGNOSE_RUN, Unknown, Value, capture_setting
from diagnose.metrics.kernels.host_calls import allocator_caches, frees_per_step
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.trace.memory_series import most_reserved
from diagnose.trace.readings import reading

NOTHING = "nothing"
_ROOMY = 0.30  # of the device's memory free
_NO_MEMORY = Unknown("memory was not profiled", DIAGNOSE_RUN)


@metric("flag", needs_gpu=False)
def empties_cache(m: Measured) -> Value:
    """Whether something empties the caching allocator between steps: the Trainer (torch_empty_cache_steps), or a call.

    A call shows in memory that goes back to the driver in each step while more than 30 % of the device's is free: by
    itself the allocator gives back only where it runs out of room.
    """
    emptied_by = cache_emptied_by(m)
    return emptied_by if isinstance(emptied_by, Unknown) else emptied_by != NOTHING


@metric("text", needs_gpu=False)
def cache_emptied_by(m: Measured) -> Value:
    """The emptier of the memory cache between steps: torch_empty_cache_steps, torch.cuda.empty_cache() or nothing."""
    arguments = m.record.get("training_arguments")
    set_to = arguments.get("torch_empty_cache_steps") if isinstance(arguments, dict) else None
    if set_to is not None:
        return "torch_empty_cache_steps"
    free, frees = memory_free_share(m), frees_per_step(m)
    if not isinstance(free, Unknown) and float(free) > _ROOMY and m.timeline.has_gpu and allocator_caches(m) is True:
        return "torch.cuda.empty_cache()" if frees >= 1 else NOTHING
    known = isinstance(arguments, dict) and "torch_empty_cache_steps" in arguments
    return NOTHING if known else m.unrecorded


@metric("flag", needs_gpu=False)
def expandable_segments(m: Measured) -> Value:
    """Whether the caching allocator may grow its segments (expandable_segments:True in PYTORCH_ALLOC_CONF)."""
    environment = m.record.get("environment")
    if not isinstance(environment, dict):
        return m.unrecorded
    settings = [environment.get(f"PYTORCH_{of}ALLOC_CONF") for of in ("", "CUDA_", "HIP_")]
    return any("expandable_segments:True" in str(text) for text in settings)


@metric("bytes")
def memory_peak_bytes(m: Measured) -> Value:
    """Most device memory that the caching allocator held: by the record over the run, else in the window."""
    seen = most_reserved(m.timeline.trace.memory)
    recorded = m.record.number("memory.max_reserved_bytes")
    return recorded if recorded else seen if seen > 0 else _NO_MEMORY


@metric("bytes")
def memory_total_bytes(m: Measured) -> Value:
    """Memory of the device."""
    total = m.timeline.device_properties.get("totalGlobalMem")
    if not isinstance(total, int) or total <= 0:
        return Unknown("the trace lists no device properties", capture_setting("a torch that writes deviceProperties"))
    return total


@metric("share", "device memory")
def memory_free_share(m: Measured) -> Value:
    """Device memory that the caching allocator never held during the window."""
    peak, total = memory_peak_bytes(m), memory_total_bytes(m)
    if isinstance(peak, Unknown):
        return peak
    return total if isinstance(total, Unknown) else max(0.0, 1 - float(peak) / float(total))


@metric("bytes", needs_gpu=False)
def memory_room_bytes(m: Measured) -> Value:
    """Memory in which a rank can hold more: the device's that the caching allocator never held, or without a GPU the
    rank's part of what the host had available at the least.
    """
    if m.timeline.has_gpu:
        free, total = memory_free_share(m), memory_total_bytes(m)
        if isinstance(free, Unknown) or isinstance(total, Unknown):
            return free if isinstance(free, Unknown) else total
        return float(free) * float(total)
    left, ranks = reading(m.record, "available_bytes"), m.record.number("cores.local_ranks")
    return m.unrecorded if left is None or not ranks else left.least / ranks
