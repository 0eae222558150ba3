"""Model FLOPs utilisation."""

from diagnose.facts import DIAGNOSE_RUN, Unknown, Value, analysis_option
from diagnose.formulas import model_flops as formula
from diagnose.metrics.measured import Measured
from diagnose.metrics.model.flops import NUMERATORS, counted_flops, model_flops
from diagnose.metrics.registry import metric
from diagnose.metrics.run.capture import lost_share
from diagnose.metrics.run.device import peak_flops

_MAY_COMPUTE_PRODUCTS = ("inductor", "triton", "moe", "quant", "other", "aten_other")
_ABOVE_DATASHEET = 1.05  # times the listed peak, at most: by measured products none comes near it


def declared_flops(m: Measured) -> tuple[str, float] | Unknown:
    """The convention that MFU is stated by, and its FLOPs of one step on one rank."""
    by_convention = model_flops(m)
    return by_convention if isinstance(by_convention, Unknown) else next(iter(by_convention.items()))


@metric("share", "peak FLOP/s times the step", needs_gpu=False)
def mfu_share(m: Measured) -> Value:
    """FLOPs of the step over the declared peak times the step's duration; refused above 1, and above the share of the
    step in which kernels run that may compute products.
    """
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
    value = formula.mfu_share(flops, m.step_s, peak[0])
    if value > 1:
        return _above(m, value, peak[0], numerator)
    running = _products_share(m)
    return value if running is None or value <= running * _own_advantage(m, peak[0]) else _idle(value, running)


def _products_share(m: Measured) -> float | None:
    """Share of the step in which a kernel runs that may compute products; None if the trace may lack some of them."""
    gpu = m.timeline.gpu
    if not m.timeline.has_gpu or lost_share(m.timeline) or m.timeline.other_gpus.count:
        return None
    share = m.share_of(m.kernels & (gpu.is_compute_bound | gpu.of_family(*_MAY_COMPUTE_PRODUCTS)))
    return None if isinstance(share, Unknown) else share * m.attribution.total_ns / m.accounted_ns


def _own_advantage(m: Measured, peak: float) -> float:
    """How much faster than the declared peak the precision of most products may be, with room for clocks that boost."""
    own = own_peak(m)[1]
    return _ABOVE_DATASHEET * max((own or peak) / peak, 1.0)


def _idle(value: float, running: float) -> Unknown:
    return Unknown(
        f"{100 * value:.1f} % of the peak is impossible: kernels that compute products run for {100 * running:.1f} % "
        "of the step, so the FLOPs of a step or the peak are wrong",
        analysis_option("--flops-per-step and --peak-tflops"),
    )


def _above(m: Measured, value: float, peak: float, numerator: str) -> Unknown:
    """The reason why MFU is above the peak: most FLOPs ran in a precision with a higher one, or a figure is wrong."""
    precision, own = own_peak(m)
    if own is not None and value * peak <= own:
        return Unknown(
            f"{100 * value:.0f} % of the {m.device.matrix_precision} peak: most of the FLOPs ran in {precision}, of "
            f"whose peak it is {100 * value * peak / own:.0f} %",
            analysis_option(f"--peak-tflops {own / 1e12:.0f}"),
        )
    return Unknown(
        f"{100 * value:.0f} % of the peak is impossible: the peak or the numerator is wrong ({numerator})",
        analysis_option("--flops-per-step and --peak-tflops"),
    )


def own_peak(m: Measured) -> tuple[str | None, float | None]:
    """The precision of most matrix FLOPs, and its peak."""
    works = [work for work in m.roofline.matrix if work.precision]
    if not works:
        return None, None
    most = max(works, key=lambda work: work.flops).precision
    return most, m.device.peak(most)
