"""Compare a tested patch's prediction, which travels with the run, with what the run measured."""

import math
import re
from collections.abc import Mapping
from typing import Any

from diagnose.diagnosis import Applied, NotApplied, Patch, Speedup
from diagnose.facts import Facts, Unknown
from diagnose.trace.record import CaptureRecord

WITHOUT_PROFILER, DEVICE_STEP, HOST_STEP = "step without the profiler", "device step", "host step"
_SAMPLES = ("per_device_train_batch_size", "gradient_accumulation_steps")
_CAME_ALONE = (
    "the patch came without the diagnosis that proposes it: pass what `diagnose run --json` or "
    "`diagnose analyze --json` wrote"
)


def expected_of(diagnosis: Mapping[str, Any], rule: str) -> dict[str, Any]:
    """The speedup that a diagnosis, as JSON, predicts for a rule's change alone, and the step times it is based on."""
    changes = [*_listed(diagnosis, "findings"), *_listed(diagnosis, "plan")]
    change_of_rule = next((change for change in changes if change.get("rule") == rule), {})
    facts = {fact.get("name"): fact.get("value") for fact in _listed(diagnosis, "facts")}
    steps = diagnosis.get("steps")
    on_device = isinstance(steps, Mapping) and steps.get("device_time_ns") is not None
    return {
        "rule": rule if re.fullmatch(r"[a-z0-9-]{1,80}", rule) else "",
        "speedup": _range(change_of_rule.get("predicted_speedup")),
        "step": DEVICE_STEP if on_device else HOST_STEP,
        "step_ns": _number(facts.get("step_time_ns")),
        "unprofiled_step_ns": _number(facts.get("unprofiled_step_time_ns")),
        "samples_per_step": _product(facts.get("micro_batch_size"), facts.get("accumulation_steps")),
    }


def applied_of(record: CaptureRecord, facts: Facts) -> Applied | None:
    """Prediction and measurement of the patch that the record names; None for a run without one."""
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
    work = _work(patches, expected, facts)
    measured = None
    if before is not None and after and not isinstance(work, Unknown):
        measured = before * work / after
    return Applied(
        patches=patches,
        refused=refused,
        rule=str(expected.get("rule") or ""),
        predicted_speedup=_speedup(expected.get("speedup")),
        measured_speedup=measured,
        before_ns=before,
        after_ns=after,
        step=step,
        noise_share=_fact(facts, "step_noise_share"),
        because="" if measured else work.because if isinstance(work, Unknown) else _why_no_times(before),
    )


def _times(expected: Mapping[str, Any], facts: Facts) -> tuple[str, float | None, float | None]:
    """The kind of step that is compared and its medians before and after: without the profiler if both are known."""
    before, after = _number(expected.get("unprofiled_step_ns")), _fact(facts, "unprofiled_step_time_ns")
    if before is not None and after is not None:
        return WITHOUT_PROFILER, before, after
    has_gpu = "has_gpu" in facts and facts["has_gpu"].value is True
    step = DEVICE_STEP if has_gpu else HOST_STEP
    after = _fact(facts, "step_time_ns")
    return step, _number(expected.get("step_ns")) if expected.get("step") == step else None, after


def _work(patches: tuple[Patch, ...], expected: Mapping[str, Any], facts: Facts) -> float | Unknown:
    """Samples per step over those before, if the patch changes their number; else 1."""
    if not any(key in patch.set for patch in patches for key in _SAMPLES):
        return 1.0
    before = _number(expected.get("samples_per_step"))
    after = _product(_fact(facts, "micro_batch_size"), _fact(facts, "accumulation_steps"))
    if before is None or after is None:
        return Unknown("the patch changes the work of a step, and how many samples a step has is not known", None)
    return after / before


def _why_no_times(before: float | None) -> str:
    return f"the step time {'before' if before is None else 'with the patch'} is not known, or is of other steps"


def _fact(facts: Facts, name: str) -> float | None:
    return _number(facts[name].value) if name in facts else None


def _number(value: object) -> float | None:
    """A finite number of zero or more."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
    return float(value) if fits else None  # type: ignore[arg-type]


def _product(one: object, other: object) -> float | None:
    a, b = _number(one), _number(other)
    return None if a is None or b is None else a * b


def _range(value: object) -> list[float | None] | None:
    speedup = _speedup(value)
    return None if speedup is None else list(speedup)


def _speedup(value: object) -> Speedup | None:
    """[low, high or null]: the best case need not be known."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    low, high = _number(value[0]), _number(value[1])
    return None if low is None or (high is None and value[1] is not None) else (low, high)


def _listed(diagnosis: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    entries = diagnosis.get(key)
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []
