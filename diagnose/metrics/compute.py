"""Model FLOPs utilisation and the efficiency of matrix products."""

from diagnose.facts import Unknown
from diagnose.flops import NUMERATOR
from diagnose.formulas.model_flops import mfu_share as utilisation
from diagnose.metrics.registry import NO_SHAPES, Measured, Value, metric

MIN_COVERED = 0.9
GIVEN = "FLOPs per step as given by --flops-per-step"


def flops_per_step(m: Measured) -> float | Unknown:
    """Model FLOPs of one step on one rank: as given, else counted from operator shapes."""
    if m.settings.flops_per_step:
        return m.settings.flops_per_step
    counted = m.flops
    if counted is None or not counted.per_step:
        return NO_SHAPES
    if counted.covered_share < MIN_COVERED:
        return Unknown(
            f"{100 * (1 - counted.covered_share):.0f} % of the matrix-kernel time is under no operator with shapes",
            "capture with record_shapes=True, or pass --flops-per-step",
        )
    return counted.per_step


def peak_flops(m: Measured) -> tuple[float, str] | Unknown:
    """Peak FLOP/s of one device and where it comes from."""
    if m.settings.peak_tflops:
        return m.settings.peak_tflops * 1e12, "--peak-tflops"
    if m.without_gpu is not None:
        return m.without_gpu
    gpu = m.gpu_info
    if gpu is None or gpu.matrix_tflops is None:
        name = m.timeline.device_name or "without a name"
        return Unknown(f"the GPU ({name}) is not in the table of peaks", "pass --peak-tflops")
    return gpu.matrix_tflops * 1e12, gpu.declared


def numerator(m: Measured) -> str:
    """Which FLOPs are counted."""
    return GIVEN if m.settings.flops_per_step else NUMERATOR


@metric("share", "peak FLOP/s times the step", needs_gpu=False)
def mfu_share(m: Measured) -> Value:
    """FLOPs of the step over the declared peak times the step's duration; above 1 it is refused."""
    flops, peak = flops_per_step(m), peak_flops(m)
    if isinstance(peak, Unknown):
        return peak
    if isinstance(flops, Unknown):
        return flops
    step_s = m.attribution.total_ns / max(m.timeline.steps.count, 1) / 1e9
    value = utilisation(flops, step_s, peak[0]) if step_s else 0.0
    if value > 1:
        return Unknown(
            f"{100 * value:.0f} % of the peak is impossible: the FLOPs or the peak are wrong for this run",
            "pass --flops-per-step and --peak-tflops",
        )
    return value


@metric("share", "peak FLOP/s inside matrix-product kernels")
def matmul_efficiency_share(m: Measured) -> Value:
    """FLOP/s reached inside matrix-product kernels over the declared peak."""
    peak, counted = peak_flops(m), m.flops
    if isinstance(peak, Unknown):
        return peak
    if counted is None or not counted.gemm_per_step or counted.covered_share < MIN_COVERED:
        return NO_SHAPES
    rows = m.kernels & m.timeline.gpu.of_family("gemm")
    seconds = int(m.own_time[rows].sum()) / 1e9
    if not seconds:
        return Unknown("no matrix-product kernel ran", "nothing: the model has none")
    value = counted.gemm_per_step * m.timeline.steps.count / seconds / peak[0]
    return (
        value if value <= 1 else Unknown("more than the peak: operators and kernels do not match", "pass --peak-tflops")
    )
