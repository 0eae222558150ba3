"""What the device can do at most."""

from diagnose.facts import DIAGNOSE_RUN, Unknown, analysis_option
from diagnose.metrics.compute import peak_flops
from diagnose.metrics.registry import Measured, Value, metric


@metric("flops_per_s", needs_gpu=False)
def peak_matrix_flops_per_s(m: Measured) -> Value:
    """Dense peak of matrix products in bf16 (fp16 without bf16 units): as stated, else of the table."""
    peak = peak_flops(m)
    return peak if isinstance(peak, Unknown) else peak[0]


@metric("bytes_per_s", needs_gpu=False)
def hbm_bytes_per_s(m: Measured) -> Value:
    """Peak bandwidth of device memory: as stated, else of the captured clock and bus width, else of the table."""
    device = m.device
    if m.settings.hbm_gbs is None and m.without_gpu is not None:
        return m.without_gpu
    if device.hbm_bytes_per_s is None:
        return Unknown(device.hbm_bytes_per_s_source, analysis_option("--hbm-gbs", DIAGNOSE_RUN))
    return device.hbm_bytes_per_s


@metric("flops_per_byte", needs_gpu=False)
def ridge_flops_per_byte(m: Measured) -> Value:
    """Arithmetic intensity at which the roofs of matrix products and of device memory meet."""
    peak, bandwidth = peak_matrix_flops_per_s(m), hbm_bytes_per_s(m)
    if isinstance(peak, Unknown) or isinstance(bandwidth, Unknown):
        return peak if isinstance(peak, Unknown) else bandwidth
    return float(peak) / float(bandwidth)
