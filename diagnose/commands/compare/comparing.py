"""Compare two sides: the speed-up with its interval, the verdict, and where it comes from, as a frozen Comparison."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from diagnose.arrays import Floats
from diagnose.attribution.causes import DISTORTED
from diagnose.commands.compare.answer import ComparedRun, Comparison, ComparisonVerdict, NotCompared, Promise
from diagnose.commands.compare.configuration import configuration_changes, not_compared
from diagnose.commands.compare.difference import (
    breakdown_step,
    cause_differences,
    classes_of,
    kernel_differences,
    rank_differences,
)
from diagnose.commands.compare.forecasts import (
    PREDICTED_STEP,
    forecast_because,
    predicted_step,
    speedup_of_forecast,
)
from diagnose.commands.compare.noise import BRIEF, core_wait_of, is_elsewhere, is_on_host, usual_floor
from diagnose.commands.compare.side import Side, side_of
from diagnose.commands.compare.work import STEP_TIME, ComparedWork, work_of
from diagnose.diagnosis import Applied, Diagnosis, Estimate
from diagnose.diagnosis.promise import machine_between
from diagnose.facts import spoken
from diagnose.judge.applied import WITHOUT_PROFILER
from diagnose.judge.mean_step import MeanStep, of_summary, step_time
from diagnose.judge.run_pair import FLOOR_OF_BRIEF, LEAST_STEPS, WIDEST, is_brief, speedup_between
from diagnose.patch.expected import HOST_STEP

_CONTRARY = "the steps under the profiler do not show the difference: their causes do not explain it"
_MOST_LISTED = 200  # steps of a side
_LONGER = "capture steps in which operators take longer"
_MORE_STEPS = "capture more of them, five or so (diagnose run --steps 5)"
_CAPTURE = "capture both with diagnose run, which also times steps without the profiler"


@dataclass(frozen=True)
class _Steps:
    """The steps of both sides that are compared; None if these have none of one kind."""

    before: MeanStep | None
    after: MeanStep | None
    names: tuple[str, str]
    because: str = ""


def compare(before: Side | Diagnosis, after: Side | Diagnosis, *, floor_share: float | None = None) -> Comparison:
    """Compare the run `after` with the run `before`.

    Args:
        before: a side, or a diagnosis.
        after: likewise.
        floor_share: how far repeats of one run lie apart on the user's machines, a share; None for the usual value, and
            without a GPU for the one that the steps show.
    """
    one = side_of(before, "before") if isinstance(before, Diagnosis) else before
    other = side_of(after, "after") if isinstance(after, Diagnosis) else after
    work, steps = work_of(one, other), _steps_of(one, other)
    drifts = floor_share is None and is_on_host(one, other)
    brief = drifts and is_brief(steps.before, steps.after)
    floor = floor_share if floor_share is not None else FLOOR_OF_BRIEF if brief else usual_floor(one, other)
    forecast = bool(one.predicted_ns or other.predicted_ns)
    speedup, width = _of_forecast(one, other, steps, work, floor) if forecast else _speedup(steps, work, floor, drifts)
    verdict, because = _verdict(steps, work, speedup, width)
    if forecast and speedup and steps.before and steps.after:
        measured = (steps.after if one.predicted_ns else steps.before).mean_ns
        because = forecast_because(one, other, speedup, work.of == STEP_TIME, measured)
    comparison = Comparison(
        verdict=verdict,
        because=because,
        speedup=speedup,
        speedup_of=work.of,
        floor_share=floor,
        detectable_share=None if width is None or work.why_not or forecast else math.expm1(width),
        before=_run(one, steps.before, steps.names[0]),
        after=_run(other, steps.after, steps.names[1]),
        same_work=work.same,
        work=work.changed,
        kernels=kernel_differences(one, other) if one.step == other.step and not _distorted(one, other) else (),
        kernel_kind="operator" if one.step == HOST_STEP else "kernel",
        ranks=() if _distorted(one, other) else rank_differences(one, other),
        configuration=configuration_changes(one, other),
        promise=_promise(one, other, speedup),
        not_compared=(*_breakdown_missing(one, other), *not_compared(one, other)),
        notes=(*work.notes, *_notes(one, other, steps), *([BRIEF] if brief and speedup else [])),
    )
    return _with_causes(comparison, one, other, work.ratio)


def _steps_of(before: Side, after: Side) -> _Steps:
    """Steps without the profiler if both sides have two of them, else those of the windows; of a forecast, its own."""
    if before.predicted_ns or after.predicted_ns:
        (one, name), (other, other_name) = _beside_forecast(before), _beside_forecast(after)
        missing = "" if one and other else "one of the runs has no step"
        return _Steps(one, other, (name, other_name), missing)
    if min(len(before.unprofiled_ns), len(after.unprofiled_ns)) >= LEAST_STEPS:
        return _Steps(
            step_time(before.unprofiled_ns), step_time(after.unprofiled_ns), (WITHOUT_PROFILER, WITHOUT_PROFILER)
        )
    windows = _windows(before), _windows(after)
    names = before.step, after.step
    if windows[0] is not None and windows[1] is not None:
        return _Steps(*windows, names)
    if before.unprofiled_ns and after.unprofiled_ns and (windows[0] is None or windows[1] is None):
        one, other = step_time(before.unprofiled_ns), step_time(after.unprofiled_ns)
        return _Steps(one, other, (WITHOUT_PROFILER, WITHOUT_PROFILER))
    if windows == (None, None):
        return _Steps(None, None, names, "neither run has a step")
    because = "the steps of one run are timed with the profiler and those of the other without, which is no comparison"
    return _Steps(None, None, names, because)


def _beside_forecast(side: Side) -> tuple[MeanStep | None, str]:
    """The steps of a comparison with a forecast: its own, or of a run those without the profiler, if there are such."""
    if side.predicted_ns:
        return predicted_step(side), PREDICTED_STEP
    return (step_time(side.unprofiled_ns), WITHOUT_PROFILER) if side.unprofiled_ns else (_windows(side), side.step)


def _windows(side: Side) -> MeanStep | None:
    """The steps of the window; their mean and deviation alone if the diagnosis does not list them.

    None if the profiler distorts them: the diagnosis is then of steps without it.
    """
    if _is_distorted(side):
        return None
    if any(side.each_ns):
        return step_time(side.each_ns)
    total = sum(cause.ns for cause in side.causes)
    if not total or not side.counted:
        return None
    steps = max(side.counted // max(len(side.each_rank), 1), 1)
    return of_summary(total / side.counted, side.noise_share, min(steps, 1 << 20))


def _speedup(steps: _Steps, work: ComparedWork, floor: float, drifts: bool) -> tuple[Estimate | None, float | None]:
    """The speed as [low, mid, high], and half the width of its logarithm; None if they are unknown."""
    if steps.before is None or steps.after is None or work.why_not or _of_one_step(steps):
        return None, None
    return speedup_between(steps.before, steps.after, work.ratio, floor, drifts)


def _of_forecast(
    before: Side, after: Side, steps: _Steps, work: ComparedWork, floor: float
) -> tuple[Estimate | None, float | None]:
    """The same if one side is a forecast; half the width is that towards slower runs."""
    if steps.before is None or steps.after is None or work.why_not:
        return None, None
    speedup = speedup_of_forecast(before, after, (steps.before, steps.after), work.ratio, floor)
    return speedup, math.log(speedup[1] / speedup[0])


def _of_one_step(steps: _Steps) -> list[str]:
    """Names of the runs that contribute exactly one step to the comparison."""
    sides = ("A", steps.before), ("B", steps.after)
    return [name for name, side in sides if side is not None and side.steps < LEAST_STEPS]


def _why_not_compared(steps: _Steps) -> str:
    """Why the steps give no speed-up, and what would."""
    if few := _of_one_step(steps):
        of = "each run" if len(few) == 2 else few[0]
        return f"one step of {of} does not show how much steps differ; {_MORE_STEPS}"
    counts = " and ".join(str(side.steps) for side in (steps.before, steps.after) if side is not None)
    apart = f"{counts} steps that differ so much cannot show even a factor of {WIDEST:g} between the runs"
    return f"{apart}; {_MORE_STEPS}"


def _verdict(
    steps: _Steps, work: ComparedWork, speedup: Estimate | None, width: float | None
) -> tuple[ComparisonVerdict, str]:
    if work.why_not:
        return "not_comparable", work.why_not
    if steps.because:
        return "not_comparable", steps.because
    if speedup is None or width is None:
        return "not_comparable", _why_not_compared(steps)
    low, mid, high = speedup
    if low > 1:
        return "better", f"the 99 % interval, {low:.3f}-{high:.3f}x, excludes 1"
    if high < 1:
        return "worse", f"the 99 % interval, {1 / high:.3f}-{1 / low:.3f}x as slow, excludes 1"
    seen = 100 * math.expm1(width)
    return "no_difference", f"{mid:.3f}x is within the noise: this pair could have shown {seen:.1f} % or more"


def _with_causes(comparison: Comparison, before: Side, after: Side, ratio: float) -> Comparison:
    """The comparison with the difference by cause; unchanged if the sides have no ledgers of the same kind."""
    windows = _windows(before), _windows(after)
    if _breakdown_missing(before, after) or windows[0] is None or windows[1] is None:
        return comparison
    one, other = breakdown_step(before, windows[0].kept), breakdown_step(after, windows[1].kept, ratio)
    before_ns, after_ns = sum(one.values()), sum(other.values())
    contrary = {"better": after_ns > before_ns, "worse": after_ns < before_ns}.get(comparison.verdict, False)
    return replace(
        comparison,
        notes=(*comparison.notes, *([_CONTRARY] if contrary else ())),
        difference=cause_differences(one, other, classes_of(before, after)),
        before_ns=before_ns,
        after_ns=after_ns,
        difference_ns=after_ns - before_ns,
    )


def _breakdown_missing(before: Side, after: Side) -> tuple[NotCompared, ...]:
    if forecasts := [name for name, side in (("A", before), ("B", after)) if side.predicted_ns]:
        are = "is a forecast" if len(forecasts) == 1 else "are forecasts"
        because = f"{' and '.join(forecasts)} {are}, without causes"
        return (NotCompared(what="causes", because=because),)
    bare = [name for name, side in (("A", before), ("B", after)) if not side.causes or not side.counted]
    if bare:
        because = f"{' and '.join(bare)} {'has' if len(bare) == 1 else 'have'} step times alone"
        return (NotCompared(what="causes", because=because, do=_CAPTURE),)
    if distorted := _distorted(before, after):
        because = f"the profiler makes the steps of {' and '.join(distorted)} several times as long: shares are its own"
        return (NotCompared(what="causes", because=because, do=_LONGER),)
    if before.step != after.step:
        because = f"the ledger of A is of the {before.step}, that of B of the {after.step}"
        return (NotCompared(what="causes", because=because),)
    return ()


def _distorted(before: Side, after: Side) -> list[str]:
    """Names of the runs whose steps the profiler distorts: no cause, kernel or rank of them is compared."""
    return [name for name, side in (("A", before), ("B", after)) if _is_distorted(side)]


def _is_distorted(side: Side) -> bool:
    return any(cause.cause == DISTORTED for cause in side.causes)


def _run(side: Side, steps: MeanStep | None, name: str) -> ComparedRun:
    rate = 1e9 / steps.mean_ns if steps is not None else None
    tokens, samples, ranks = side.tokens_per_step, side.samples_per_step, side.ranks or 1
    return ComparedRun(
        source=side.source,
        device=side.device,
        ranks=side.ranks,
        step=name,
        steps=steps.steps if steps is not None else 0,
        left_out=side.left_out + (int((~steps.kept).sum()) if steps is not None else 0),
        step_ns=steps.mean_ns if steps is not None else None,
        noise_share=steps.noise_share if steps is not None else None,
        tokens_per_s=tokens * ranks * rate if tokens and rate else None,
        samples_per_s=samples * ranks * rate if samples and rate else None,
        tokens_per_s_per_rank=tokens * rate if tokens and rate else None,
        predicted_ns=tuple(side.predicted_ns) or None,  # type: ignore[arg-type]
        each_ns=()
        if steps is None
        else _each_ns(side.unprofiled_ns if name == WITHOUT_PROFILER else side.each_ns, steps),
    )


def _each_ns(timed_ns: Sequence[int], steps: MeanStep) -> tuple[int, ...]:
    """The kept ones of the steps that were timed, by length; empty if the mean is of others."""
    if len(timed_ns) != len(steps.kept):
        return ()
    ns = np.sort(np.asarray(timed_ns)[steps.kept])
    return tuple(ns[np.linspace(0, len(ns) - 1, min(len(ns), _MOST_LISTED)).round().astype(int)].tolist())


def _promise(before: Side, after: Side, speedup: Estimate | None) -> Promise | None:
    """The prediction of the patched side: the later run, else the earlier one, whose patch the later run lacks."""
    if (before.applied is None) == (after.applied is None):
        return None
    is_after = after.applied is not None
    plain, patched = (before, after) if is_after else (after, before)
    applied = applied_to(plain, patched)
    if applied is None or not applied.patches:
        return None
    measured = speedup if is_after or speedup is None else (1 / speedup[2], 1 / speedup[1], 1 / speedup[0])
    judgement = applied.judged_by(measured)
    return Promise(patched="after" if is_after else "before", applied=applied, measured=measured, judgement=judgement)


def applied_to(plain: Side, patched: Side) -> Applied | None:
    """The patch of a run, with what changed of the machine since the run that it is compared with, which need not be
    the one that the patch is of.
    """
    applied, cured = patched.applied, [change.name for change in patched.applied.evidence] if patched.applied else []
    if applied is None or not (plain.machine and patched.machine):
        return applied
    return replace(applied, confounders=machine_between(plain.machine, patched.machine, cured))


def _notes(before: Side, after: Side, steps: _Steps) -> tuple[str, ...]:
    notes, windows = [], (_windows(before), _windows(after))
    for name, side, window in (("A", before, windows[0]), ("B", after, windows[1])):
        timed = steps.before if name == "A" else steps.after
        if steps.names[0] == WITHOUT_PROFILER and timed is not None and not timed.kept.all():
            notes.append(_left_out(name, np.asarray(side.unprofiled_ns, np.float64), timed))
        if window is not None and not window.kept.all():
            notes.append(_left_out(name, np.asarray(side.each_ns, np.float64), window))
        if waits := core_wait_of(side):
            notes.append(
                f"{name} waits {spoken(waits, 'share')} of its step for a CPU core: its times are a busy host's"
            )
        if side.left_out:
            notes.append(f"the first {side.left_out:,} steps of {name}, its start, are left out")
    if steps.names == (WITHOUT_PROFILER, WITHOUT_PROFILER) and None not in windows:
        notes.append("speeds are of steps without the profiler, causes and kernels of the steps under it")
    if is_elsewhere(before, after):
        where = f"steps {before.first_step:,} to {before.last_step:,} of A and {after.first_step:,} to "
        notes.append(f"{where}{after.last_step:,} of B: the step drifts over a run, so that more counts as noise")
    measured = not (before.predicted_ns or after.predicted_ns)
    if measured and steps.before is not None and steps.names[0] != steps.names[1]:
        notes.append(f"the time of A is of the {steps.names[0]}, that of B of the {steps.names[1]}")
    return tuple(notes)


def _left_out(name: str, each_ns: Floats, window: MeanStep) -> str:
    slow = each_ns[~window.kept]
    count = "one step" if len(slow) == 1 else f"{len(slow)} steps"
    factor, share = slow.max() / window.mean_ns, slow.sum() / each_ns.sum()
    return f"{count} of {name}, up to {factor:.2f}x the others and {100 * share:.1f} % of the time, left out as rare"
