"""Compare a tested patch's prediction, which travels with the run, with what the run measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from diagnose.diagnosis import Applied, Estimate, NotApplied, Patch
from diagnose.diagnosis.promise import MOVED, Change
from diagnose.facts import Facts, Scalar, Unknown
from diagnose.judge.mean_step import step_time
from diagnose.judge.run_pair import FLOOR, FLOOR_OF_BRIEF, FLOOR_ON_HOST, differ, is_brief, speedup_between, work_ratio
from diagnose.patch.expected import CONFOUNDERS, DEVICE_STEP, HOST_STEP, WORK, number_of, product, speedup_of
from diagnose.trace.record import CaptureRecord

WITHOUT_PROFILER = "step without the profiler"
_SAMPLES = ("per_device_train_batch_size", "gradient_accumulation_steps")
_DISTURBS = 0.1  # of a share of the machine, or of its clock
_LEAST_SHARE = 0.005  # a smaller difference of two shares is none
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
    record: CaptureRecord, facts: Facts, unprofiled_ns: Sequence[float] = (), tokens_per_step: float | None = None
) -> Applied | None:
    """Prediction and measurement of the patch that the record names; None for a run without one.

    Args:
        record: of the run with the patch.
        facts: of it.
        unprofiled_ns: its steps without the profiler.
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
    work = _work(patches, expected, facts, tokens_per_step)
    measured = None
    if before is not None and after and not isinstance(work, Unknown):
        measured = _of_steps(expected, unprofiled_ns, work, _on_gpu(facts)) or _of_medians(before * work / after, facts)
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
        because="" if measured else work.because if isinstance(work, Unknown) else _why_no_times(before),
        evidence=_changes(expected, facts, (name for name in _names(expected) if name not in CONFOUNDERS)),
        confounders=_changes(expected, facts, CONFOUNDERS),
    )


def _of_steps(
    expected: Mapping[str, Any], unprofiled_ns: Sequence[float], work: float, on_gpu: bool
) -> Estimate | None:
    """The speed by the steps without the profiler, as `diagnose compare` has it; None if a run timed too few."""
    known = expected.get("unprofiled_ns")
    if not isinstance(known, Sequence) or min(len(known), len(unprofiled_ns)) < 2:
        return None
    before, after = step_time(known), step_time(unprofiled_ns)
    floor = FLOOR if on_gpu else FLOOR_OF_BRIEF if is_brief(before, after) else FLOOR_ON_HOST
    return speedup_between(before, after, work, floor, drifts=not on_gpu)[0]


def _of_medians(speed: float, facts: Facts) -> Estimate:
    """The speed of the median steps, within what the steps of the run lie apart."""
    noise = _fact(facts, "step_noise_share") or 0.0
    return speed / (1 + noise), speed, speed * (1 + noise)


def _times(expected: Mapping[str, Any], facts: Facts) -> tuple[str, float | None, float | None]:
    """The kind of step that is compared and its medians before and after: without the profiler if both are known."""
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


def _names(expected: Mapping[str, Any]) -> Sequence[str]:
    known = expected.get("facts")
    return tuple(known) if isinstance(known, Mapping) else ()


def _changes(expected: Mapping[str, Any], facts: Facts, names: Any) -> tuple[Change, ...]:
    """The facts that both runs know, before and after."""
    known = expected.get("facts")
    if not isinstance(known, Mapping):
        return ()
    pairs = [(name, known.get(name), facts[name]) for name in names if name in facts]
    return tuple(
        Change(name=name, unit=fact.unit, before=one, after=fact.value, moved=_moved(name, fact.unit, one, fact.value))
        for name, one, fact in pairs
        if one is not None and not isinstance(fact.value, Unknown)
    )


def _moved(name: str, unit: str, before: Scalar, after: Scalar) -> bool:
    if isinstance(before, str | bool) or isinstance(after, str | bool):
        return before != after
    apart = abs(after - before)
    if name in CONFOUNDERS:
        return apart > (_DISTURBS if unit == "share" else _DISTURBS * before)
    return apart > max(MOVED * abs(before), _LEAST_SHARE if unit == "share" else 0.0)


def _why_no_times(before: float | None) -> str:
    return f"the step time {'before' if before is None else 'with the patch'} is not known, or is of other steps"


def _on_gpu(facts: Facts) -> bool:
    return "has_gpu" in facts and facts["has_gpu"].value is True


def _fact(facts: Facts, name: str) -> float | None:
    return number_of(facts[name].value) if name in facts else None
