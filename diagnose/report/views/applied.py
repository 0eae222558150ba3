"""The gain of a tested patch, compared with its prediction."""

import msgspec

from diagnose.diagnosis import Applied, Diagnosis
from diagnose.diagnosis.promise import ALIKE
from diagnose.facts import duration, spoken
from diagnose.report.views.gains import speedup
from diagnose.report.views.plain import plain


class AppliedView(msgspec.Struct, frozen=True):
    """The gain of a tested patch in one line, and whether the run is slower with it."""

    line: str
    slower: bool


def applied_view(diagnosis: Diagnosis) -> AppliedView | None:
    """The patch that the run was started with; None without one."""
    line = applied_line(diagnosis.applied)
    return AppliedView(line, got_slower(diagnosis.applied)) if line else None


def applied_line(applied: Applied | None) -> str:
    """The settings in use, predicted and measured speed with the step times, what is not in use; "" without a patch."""
    if applied is None:
        return ""
    settings = ", ".join(f"{key}={value}" for patch in applied.patches for key, value in patch.set.items())
    parts = [
        f"{settings}: {_compared(applied)}" if settings else plain(applied.because),
        *(f"not applied: {entry.key} ({entry.because})" for entry in applied.refused),
    ]
    return plain("; ".join(parts))


def got_slower(applied: Applied | None) -> bool:
    """Whether the step takes longer with the patch, beyond the noise of the runs, and nothing else explains it."""
    if applied is None or applied.measured is None or any(change.moved for change in applied.confounders):
        return False
    return applied.measured[2] < 1 - ALIKE


def _compared(applied: Applied) -> str:
    predicted = speedup(applied.predicted_speedup, exact=True) or "unknown"
    if applied.refused and applied.predicted_speedup is not None:
        predicted += " of the whole patch"
    if applied.measured_speedup is None:
        return f"predicted {predicted}, measured unknown: {applied.because}"
    times = f"{applied.step} {duration(applied.before_ns or 0)} -> {duration(applied.after_ns or 0)}"
    return f"predicted {predicted}, measured {applied.measured_speedup:.2f}x ({times}){_judged(applied)}"


def _judged(applied: Applied) -> str:
    """A clause that compares the measurement with the prediction, or with the noise of the steps."""
    judgement = applied.judgement
    if got_slower(applied):
        return ": slower than before" + (f" ({judgement.because})" if judgement and judgement.because else "")
    if judgement is not None:
        return f": {judgement.spoken}"
    measured, noise = applied.measured_speedup or 1.0, applied.noise_share or 0.0
    within = abs(1 - 1 / measured) < noise
    return f"; the difference is within the {spoken(noise, 'share')} that steps of this run lie apart" if within else ""
