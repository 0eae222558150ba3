"""Compare a tested patch's prediction, which travels with the run, with what the run measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from diagnose.diagnosis import Applied, Estimate, NotApplied, Patch, Steps
from diagnose.diagnosis.promise import CONFOUNDERS, changes, machine_between
from diagnose.facts import Facts, Unknown, known_values
from diagnose.judge.mean_step import step_time
from diagnose.judge.run_pair import (
    FLOOR,
    FLOOR_OF_BRIEF,
    FLOOR_ON_HOST,
    LEAST_STEPS,
    WIDEST,
    differ,
    is_brief,
    speedup_between,
    work_ratio,
)
from diagnose.patch.expected import DEVICE_STEP, HOST_STEP, WORK, number_of, product, speedup_of
from diagnose.trace.record import CaptureRecord

WITHOUT_PROFILER, OF_RUN = "step without the profiler", "mean step of the run"
ERRORS = 2.6  # standard errors of a normal distribution on each side of 99 %
_SAMPLES = ("per_device_train_batch_size", "gradient_accumulation_steps")
_CAME_ALONE = (
    "the patch came without the diagnosis that proposes it: pass what `diagnose run --json` or "
    "`diagnose analyze --json` wrote"
)


@dataclass(frozen=True)
class _Work:
    """The work of a step, as `run_pair.StepWork` has it."""

    tokens_per_step: float | None
    padding_share: float | None
    useful_tokens_per_step: float | None
    samples_per_step: float | None


def applied_of(
    record: CaptureRecord, facts: Facts, steps: Steps | None = None, tokens_per_step: float | None = None
) -> Applied | None:
    """Prediction and measurement of the patch that the record names; None for a run without one.

    Args:
        record: of the run with the patch.
        facts: of it.
        steps: of it.
        tokens_per_step: of a rank.
    """
    in_use = record.get("applied")
    if not isinstance(in_use, Mapping):
        return None
    patches = tuple(
        Patch(target=target, set=dict(settings)) for target, settings in in_use.items() if isinstance(settings, Mapping)
    )
    refused = tuple(
        NotApplied(key=str(entry.get("key")), because=str(entry.get("because")))
        for entry in record.get("refused") or ()
        if isinstance(entry, Mapping)
    )
    expected = record.get("expected")
    if not isinstance(expected, Mapping) or not patches:
        because = "nothing of the patch is in use" if not patches else _CAME_ALONE
        return Applied(patches=patches, refused=refused, because=because)
    step, before, after = _times(expected, facts)
    known = _known_before(expected), known_values(facts)
    work = _work(patches, expected, facts, tokens_per_step)
    measured, pair = None, _pair(expected, steps)
    if before is not None and after and not isinstance(work, Unknown):
        if pair and step != OF_RUN:
            measured = _of_steps(pair, work, _on_gpu(facts))
        else:
            measured = _within(before * work / after, _noise(step, facts))
    return Applied(
        patches=patches,
        refused=refused,
        rule=str(expected.get("rule") or ""),
        predicted_speedup=speedup_of(expected.get("speedup")),
        measured_speedup=measured and measured[1],
        measured=measured,
        before_ns=before,
        after_ns=after,
        step=step,
        noise_share=_fact(facts, "step_noise_share"),
        because="" if measured else work.because if isinstance(work, Unknown) else _why_no_times(before, after),
        evidence=changes(*known, {name: facts[name].unit for name in _evidence(expected) if name in facts}),
        confounders=machine_between(*known, _evidence(expected)),
    )


def _pair(expected: Mapping[str, Any], steps: Steps | None) -> Sequence[Sequence[float]] | None:
    """The steps that `diagnose compare` takes: those without the profiler, else those of the windows; None if a run
    timed too few.
    """
    pairs = () if steps is None else ((_ns(expected, "unprofiled_ns"), steps.unprofiled_ns), _windows(expected, steps))
    return next((pair for pair in pairs if min(map(len, pair)) >= LEAST_STEPS), None)


def _of_steps(pair: Sequence[Sequence[float]], work: float, on_gpu: bool) -> Estimate | None:
    """The speed that `diagnose compare` has of such steps; None if they lie so far apart that they show none."""
    before, after = map(step_time, pair)
    floor = FLOOR if on_gpu else FLOOR_OF_BRIEF if is_brief(before, after) else FLOOR_ON_HOST
    return speedup_between(before, after, work, floor, drifts=not on_gpu)[0]


def _known_before(expected: Mapping[str, Any]) -> Mapping[str, Any]:
    known = expected.get("facts")
    return known if isinstance(known, Mapping) else {}


def _windows(expected: Mapping[str, Any], steps: Steps) -> tuple[Sequence[float], Sequence[float]]:
    """The steps of both windows, none if they are of two clocks or if the profiler distorts them."""
    step = HOST_STEP if steps.device_time_ns is None else DEVICE_STEP
    fits = expected.get("step") == step and steps.distortion is None
    return (_ns(expected, "each_ns"), steps.each_ns) if fits else ((), ())


def _ns(expected: Mapping[str, Any], key: str) -> Sequence[float]:
    known = expected.get(key)
    return [ns for ns in known if ns] if isinstance(known, Sequence) else ()


def _noise(step: str, facts: Facts) -> float:
    """The noise of a speed: of median steps what those of the run lie apart, of mean steps the errors of two runs,
    that of the run before as large as that of this one.
    """
    if step == OF_RUN:
        return ERRORS * 2**0.5 * (_fact(facts, "run_step_error_share") or 0.0)
    return _fact(facts, "step_noise_share") or 0.0


def _within(speed: float, noise: float) -> Estimate:
    return speed / (1 + noise), speed, speed * (1 + noise)


def _times(expected: Mapping[str, Any], facts: Facts) -> tuple[str, float | None, float | None]:
    """The kind of step that is compared and its medians before and after: without the profiler if both are known. What
    gains over the run is compared by its mean step.
    """
    if expected.get("over") == "run":
        return OF_RUN, number_of(expected.get("run_step_ns")), _fact(facts, "run_step_time_ns")
    before, after = number_of(expected.get("unprofiled_step_ns")), _fact(facts, "unprofiled_step_time_ns")
    if before is not None and after is not None:
        return WITHOUT_PROFILER, before, after
    step = DEVICE_STEP if _on_gpu(facts) else HOST_STEP
    after = _fact(facts, "step_time_ns")
    return step, number_of(expected.get("step_ns")) if expected.get("step") == step else None, after


def _work(
    patches: tuple[Patch, ...], expected: Mapping[str, Any], facts: Facts, tokens_per_step: float | None
) -> float | Unknown:
    """Work of a step over that before, by the measure of `diagnose compare`; 1 if neither tokens nor samples are known
    and the patch does not change the samples of a step.
    """
    before = _Work(*(number_of(expected.get(key)) for key in WORK))
    samples = product(_fact(facts, "micro_batch_size"), _fact(facts, "accumulation_steps"))
    padding, useful = _fact(facts, "padding_share"), _fact(facts, "useful_tokens_per_step")
    found = work_ratio(before, _Work(tokens_per_step, padding, useful, samples))
    if found is not None:
        return found[1] if differ(1.0, found[1]) else 1.0
    if any(key in patch.set for patch in patches for key in _SAMPLES):
        return Unknown("the patch changes the work of a step, and how many samples a step has is not known", None)
    return 1.0


def _evidence(expected: Mapping[str, Any]) -> Sequence[str]:
    """Names of the facts that the rule fired on; of a record that does not list them, all but those of the machine."""
    listed = expected.get("evidence")
    if isinstance(listed, Sequence):
        return tuple(map(str, listed))
    return tuple(name for name in _known_before(expected) if name not in CONFOUNDERS)


def _why_no_times(before: float | None, after: float | None) -> str:
    if before is not None and after:
        return f"the steps lie so far apart that they could not show a factor of {WIDEST:g} between the runs"
    return f"the step time {'before' if before is None else 'with the patch'} is not known, or is of other steps"


def _on_gpu(facts: Facts) -> bool:
    return "has_gpu" in facts and facts["has_gpu"].value is True


def _fact(facts: Facts, name: str) -> float | None:
    return number_of(facts[name].value) if name in facts else None
