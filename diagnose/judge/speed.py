"""The speed of the job without the profiler, and how full its fullest GPU is."""

from collections.abc import Sequence
from statistics import median

from msgspec.structs import replace

from diagnose.diagnosis import Period, Speed, StepRate, Steps, Verdict
from diagnose.facts import Facts, Unknown
from diagnose.judge.breakdown import mean_of_ranks
from diagnose.judge.case import Case
from diagnose.metrics import Measured
from diagnose.metrics.run.memory import memory_peak_bytes, memory_total_bytes
from diagnose.trace.record import control_ns

_DIFFER = "steps before and after the recording differ too much to be one speed"
_NO_STEPS = "no counted step has a duration"


def speed_of(case: Case, steps: Steps, verdict: Verdict, period: Period | None = None) -> Speed:
    """The speed by steps without the profiler, else by the counted steps; rates are of the job's whole batch, and of
    the mean step of the period if there is one.
    """
    tokens, samples = (_batch(case.facts, f"global_batch_{of}") for of in ("tokens", "samples"))

    def rate(ns: Sequence[float]) -> StepRate | None:
        return _rate(ns, *(None if isinstance(batch, Unknown) else batch for batch in (tokens, samples)))

    measured = [m for m in case.measured if case.only in (None, m.timeline.rank)]
    before, after = (rate(mean_of_ranks([control_ns(m.record)[side] for m in measured])) for side in (0, 1))
    differ = any(doubt.kind == "unlike-controls" for doubt in verdict.doubts)
    timed = before is not None or after is not None
    counted = steps.unprofiled_ns if timed else steps.each_ns or _mean_step(steps)
    job = None if differ else rate(counted)
    if job is not None and period is not None and (mean := rate([period.mean_ns])) is not None:
        job = replace(job, tokens_per_s=mean.tokens_per_s, samples_per_s=mean.samples_per_s)
    return replace(
        _fullest(case.facts, measured),
        job=job,
        before=before,
        after=after,
        profiled=job is not None and not timed,
        because="" if job else _DIFFER if differ else _NO_STEPS,
        tokens_because=tokens.because if isinstance(tokens, Unknown) else "",
        samples_because=samples.because if isinstance(samples, Unknown) else "",
    )


def _batch(facts: Facts, name: str) -> float | Unknown:
    value = facts[name].value
    return value if isinstance(value, Unknown) else float(value)


def _rate(ns: Sequence[float], tokens: float | None, samples: float | None) -> StepRate | None:
    total_s = sum(ns) / 1e9
    if total_s <= 0:
        return None
    return StepRate(
        count=len(ns),
        step_ns=round(median(ns)),
        least_ns=round(min(ns)),
        most_ns=round(max(ns)),
        tokens_per_s=None if tokens is None else tokens * len(ns) / total_s,
        samples_per_s=None if samples is None else samples * len(ns) / total_s,
    )


def _mean_step(steps: Steps) -> tuple[float, ...]:
    """The mean step as often as steps were counted, if the ranks count different ones."""
    total = steps.time_ns if steps.device_time_ns is None else steps.device_time_ns
    return (total / steps.count,) * steps.count if steps.count else ()


def _fullest(facts: Facts, measured: Sequence[Measured]) -> Speed:
    """The peak memory of the GPU that is fullest, by the share of its memory if that is known of all."""
    peaks = [(m.timeline.rank, memory_peak_bytes(m), memory_total_bytes(m)) for m in measured if m.timeline.has_gpu]
    known = [
        (int(peak), None if isinstance(total, Unknown) else int(total), rank)
        for rank, peak, total in peaks
        if not isinstance(peak, Unknown)
    ]
    if not known:
        unknown = facts["memory_peak_bytes"].value
        return Speed(peak_because=unknown.because if isinstance(unknown, Unknown) else "")
    peak, total, rank = max(known, key=lambda each: (each[0] / each[1] if each[1] else 0.0, each[0]))
    return Speed(peak_bytes=peak, memory_bytes=total, peak_rank=rank)
