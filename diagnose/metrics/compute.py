"""Model FLOPs utilisation and the efficiency of matrix products."""

from diagnose.facts import DIAGNOSE_RUN, Unknown, analysis_option, nothing_helps
from diagnose.formulas import model_flops as formula
from diagnose.metrics.model_work import MIN_COVERED, NUMERATORS, counted_flops, model_flops, step_s
from diagnose.metrics.registry import NO_SHAPES, Measured, Value, metric


def declared_flops(m: Measured) -> tuple[str, float] | Unknown:
    """The convention that MFU is stated by, and its FLOPs of one step on one rank."""
    found = model_flops(m)
    return found if isinstance(found, Unknown) else next(iter(found.items()))


def peak_flops(m: Measured) -> tuple[float, str] | Unknown:
    """Peak FLOP/s of one device and where it comes from."""
    device = m.device
    if device.given_flops is None and m.without_gpu is not None:
        return m.without_gpu
    peak = device.matrix_peak
    if peak is None:
        return Unknown(device.because or device.matrix_peak_source, device.capture or analysis_option("--peak-tflops"))
    return peak[0], device.matrix_peak_source


@metric("share", "peak FLOP/s times the step", needs_gpu=False)
def mfu_share(m: Measured) -> Value:
    """FLOPs of the step over the declared peak times the step's duration; above 1 it is refused."""
    declared = declared_flops(m)
    if isinstance(declared, Unknown):
        return declared if not isinstance(peak := peak_flops(m), Unknown) else peak
    return _of_peak(m, declared[1], NUMERATORS[declared[0]])


@metric("share", "peak FLOP/s times the step", needs_gpu=False)
def hfu_share(m: Measured) -> Value:
    """FLOPs of the operators that ran, recomputation included, over the declared peak times the step's duration."""
    return _of_peak(m, counted_flops(m), NUMERATORS["operators"])


@metric("share", "peak FLOP/s times the step", needs_gpu=False)
def goodput_mfu_share(m: Measured) -> Value:
    """MFU that counts only tokens that are not padding."""
    mfu, padding = mfu_share(m), m.record.number("batch.padding_share")
    if isinstance(mfu, Unknown):
        return mfu
    if padding is None:
        return Unknown("the share of padding is not recorded", DIAGNOSE_RUN)
    return formula.useful_mfu_share(float(mfu), padding)


def _of_peak(m: Measured, flops: float | Unknown, numerator: str) -> Value:
    peak = peak_flops(m)
    if isinstance(peak, Unknown):
        return peak
    if isinstance(flops, Unknown):
        return flops
    value = formula.mfu_share(flops, step_s(m), peak[0])
    if value > 1:
        return Unknown(
            f"{100 * value:.0f} % of the peak is impossible: the peak or the numerator is wrong ({numerator})",
            analysis_option("--flops-per-step and --peak-tflops"),
        )
    return value


@metric("share", "the time of matrix-product kernels")
def matmul_efficiency_share(m: Measured) -> Value:
    """Time that the FLOPs of matrix-product kernels take at the peak of the precision they ran in, over their time."""
    rows = [row for row in m.roofline.rows if row.family == "gemm" and not row.direction]
    if not rows:
        return Unknown("no matrix-product kernel ran", nothing_helps("the model has none"))
    sized_ns = sum(row.sized_ns for row in rows)
    if sized_ns < MIN_COVERED * sum(row.ns for row in rows):
        return NO_SHAPES
    peaks = [(row.flops or 0.0, m.device.peak(row.precision)) for row in rows if row.flops]
    if any(peak is None for _, peak in peaks):
        return Unknown(m.device.because or "the peak of a precision is not published", analysis_option("--peak-tflops"))
    least_ns = sum(flops / peak * 1e9 for flops, peak in peaks if peak)
    return min(least_ns / max(sized_ns, 1), 1.0)
