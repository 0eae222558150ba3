"""Model FLOPs utilisation."""

from diagnose.facts import DIAGNOSE_RUN, Unknown, Value, analysis_option
from diagnose.formulas import model_flops as formula
from diagnose.metrics.measured import Measured
from diagnose.metrics.model.flops import NUMERATORS, counted_flops, model_flops
from diagnose.metrics.registry import metric
from diagnose.metrics.run.device import peak_flops


def declared_flops(m: Measured) -> tuple[str, float] | Unknown:
    """The convention that MFU is stated by, and its FLOPs of one step on one rank."""
    by_convention = model_flops(m)
    return by_convention if isinstance(by_convention, Unknown) else next(iter(by_convention.items()))


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
    value = formula.mfu_share(flops, m.step_s, peak[0])
    return value if value <= 1 else _above(m, value, peak[0], numerator)


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
