"""The speed of the job and its MFU in a line each: the clock without the profiler, a yardstick only if one fits."""

from diagnose.diagnosis import Diagnosis, Mfu, Speed, StepRate
from diagnose.facts import NEAR_NOTHING, duration, spoken
from diagnose.formulas.mfu_words import LEAST_PARAMETERS, mfu_scale, word_of
from diagnose.report.views.plain import plain
from diagnose.report.views.why import percent

HALF = ("bf16", "fp16", "fp8")
_ATTENTION = ("attention_share", "eager_attention_share", "math_attention_share", "efficient_attention_share")
_SPREAD = 1.2  # the longest over the shortest step: from here on both are shown
_OTHER_JOB = "the 30-50 % usual for large transformers is no yardstick here"


def speed_line(diagnosis: Diagnosis) -> str:
    """Step time without the profiler, rate, and memory of the fullest GPU; "" if nothing is known."""
    speed = diagnosis.speed
    parts = [
        *(_over_period(diagnosis) or _times(speed)),
        _rate(speed.job or speed.before or speed.after),
        _memory(speed),
    ]
    return "; ".join(filter(None, parts))


def _over_period(diagnosis: Diagnosis) -> list[str]:
    """The mean step of a whole period; empty if all steps take about as long."""
    period = diagnosis.period
    if period is None:
        return []
    every = f"{period.every_steps:,} steps, of which one takes {duration(period.more_ns)} more"
    return [f"{duration(period.mean_ns)} per step, the mean of {every}"]


def _times(speed: Speed) -> list[str]:
    if speed.job is not None:
        return [f"{_span(speed.job)}{', with the profiler on' if speed.profiled else ''}"]
    apart = [f"{_span(rate)} {when}" for rate, when in _apart(speed)]
    return [", ".join(apart)] if apart else []


def _apart(speed: Speed) -> list[tuple[StepRate, str]]:
    both = ((speed.before, "before the window"), (speed.after, "after it" if speed.before else "after the window"))
    return [(rate, when) for rate, when in both if rate is not None]


def _span(rate: StepRate) -> str:
    """The median step, or the shortest and the longest if they differ much."""
    if rate.count > 1 and rate.most_ns > _SPREAD * rate.least_ns and rate.most_ns > _SPREAD * rate.step_ns:
        return f"{duration(rate.step_ns)} per step ({duration(rate.least_ns)} to {duration(rate.most_ns)})"
    return f"{duration(rate.step_ns)} per step"


def _rate(rate: StepRate | None) -> str:
    if rate is None:
        return ""
    if rate.tokens_per_s is not None:
        return f"{rate.tokens_per_s:,.0f} tokens/s"
    return "" if rate.samples_per_s is None else spoken(rate.samples_per_s, "samples_per_s")


def _memory(speed: Speed) -> str:
    if speed.peak_bytes is None:
        return ""
    of = "" if speed.memory_bytes is None else f" of {spoken(speed.memory_bytes, 'bytes')}"
    on = "" if speed.peak_rank is None else f" (rank {speed.peak_rank})"
    return f"peak {spoken(speed.peak_bytes, 'bytes')}{of} on the fullest GPU{on}"


def mfu_words(diagnosis: Diagnosis) -> str:
    """MFU with the peak that it is a share of, and whether that is good; "" if it is unknown."""
    mfu = diagnosis.mfu
    if mfu.value is None:
        return plain(mfu.unused_option)
    value, peak = mfu.of_own_peak or 0.0, _peak(mfu)
    least = "at least " if mfu.missing else ""
    if value < NEAR_NOTHING:
        return plain(f"below 0.1 % of {peak}: the kernels are too small to keep a GPU busy")
    yardstick = _word(value) if _is_large_transformer(diagnosis) else _OTHER_JOB
    told = f"{least}{percent(value)} of {peak}"
    joined = f"{told}: {yardstick}" if _is_large_transformer(diagnosis) else f"{told}; {yardstick}"
    return plain("; ".join(filter(None, (joined, mfu.unused_option))))


def _word(value: float) -> str:
    return ". ".join(filter(None, (word_of(value), mfu_scale(value))))


def _peak(mfu: Mfu) -> str:
    own = mfu.own_value is not None and mfu.own_precision is not None
    flops, precision = (mfu.own_peak_flops, mfu.own_precision) if own else (mfu.peak_flops, mfu.peak_precision)
    rate = f"{(flops or 0) / 1e12:,.0f} TFLOP/s" if (flops or 0) >= 1e14 else f"{(flops or 0) / 1e12:,.1f} TFLOP/s"
    used = ", the precision used" if own and mfu.own_peak_flops != mfu.peak_flops else ""
    source = f" ({mfu.peak_source})" if mfu.peak_source and not mfu.peak_device else ""
    return f"the {precision} peak ({rate}){used}" if precision else f"a peak of {rate}{source}"


def _is_large_transformer(diagnosis: Diagnosis) -> bool:
    """Whether it computes attention in half precision, with as many parameters as the yardstick's jobs if known."""
    shares = map(diagnosis.fact, _ATTENTION)
    attends = any(isinstance(share, float) and share > 0 for share in shares)
    parameters = diagnosis.setup.get("model.parameters")
    large = not isinstance(parameters, int | float) or parameters >= LEAST_PARAMETERS
    return attends and large and diagnosis.mfu.own_precision in HALF


def eta(diagnosis: Diagnosis, arithmetic_ns: int, total_ns: int) -> float | None:
    """The part of the peak rate that arithmetic reaches while it runs; None if unknown, or if it cannot be."""
    mfu = diagnosis.mfu
    if mfu.value is None or not arithmetic_ns or mfu.missing:
        return None
    reached = (mfu.of_own_peak or 0.0) * total_ns / arithmetic_ns
    return reached if NEAR_NOTHING <= reached <= 1 else None
