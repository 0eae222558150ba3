"""Device memory."""

from diagnose.facts import DIAGNOSE_RUN, Unknown, capture_setting
from diagnose.metrics.registry import Measured, Value, metric

_NO_MEMORY = Unknown("memory was not profiled", DIAGNOSE_RUN)


@metric("bytes")
def memory_peak_bytes(m: Measured) -> Value:
    """Most device memory that the caching allocator held: by the record over the run, else in the window."""
    seen = max(m.timeline.trace.memory_reserved.values(), default=0)
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
