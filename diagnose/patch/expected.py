"""The prediction of a diagnosis, as JSON, for a rule's change: it travels with a run that tests the change."""

import math
import re
from collections.abc import Mapping
from typing import Any

from diagnose.diagnosis import Speedup
from diagnose.diagnosis.promise import CONFOUNDERS

DEVICE_STEP, HOST_STEP = "device step", "host step"
WORK = ("tokens_per_step", "padding_share", "useful_tokens_per_step", "samples_per_step")
"""Facts of the work of a step, in the order in which they are compared."""
_MOST_STEPS = 256


def expected_of(diagnosis: Mapping[str, Any], rule: str) -> dict[str, Any]:
    """The speedup that is predicted for the change alone, the steps and the work it is based on, and the facts that a
    judgement of it compares: those that the rule fires on, and those of the machine.
    """
    changes = [*_listed(diagnosis, "findings"), *_listed(diagnosis, "plan")]
    change_of_rule = next((change for change in changes if change.get("rule") == rule), {})
    facts = {str(fact.get("name")): fact.get("value") for fact in _listed(diagnosis, "facts")}
    steps, mfu = _table(diagnosis, "steps"), _table(diagnosis, "mfu")
    on_device = steps.get("device_time_ns") is not None
    evidence = [str(entry.get("fact")) for entry in _listed(change_of_rule, "evidence")]
    return {
        "rule": rule if re.fullmatch(r"[a-z0-9-]{1,80}", rule) else "",
        "speedup": _range(change_of_rule.get("usual_speedup") or change_of_rule.get("predicted_speedup")),
        "step": DEVICE_STEP if on_device else HOST_STEP,
        "step_ns": number_of(facts.get("step_time_ns")),
        "unprofiled_step_ns": number_of(facts.get("unprofiled_step_time_ns")),
        "run_step_ns": number_of(facts.get("run_step_time_ns")),
        "over": str(change_of_rule.get("over") or "step"),
        "unprofiled_ns": _numbers(steps.get("unprofiled_ns")),
        "each_ns": [] if steps.get("distortion") is not None else _numbers(steps.get("each_ns")),
        "samples_per_step": product(facts.get("micro_batch_size"), facts.get("accumulation_steps")),
        "tokens_per_step": number_of(mfu.get("tokens_per_step")),
        "padding_share": number_of(facts.get("padding_share")),
        "useful_tokens_per_step": number_of(facts.get("useful_tokens_per_step")),
        "facts": {name: facts[name] for name in (*evidence, *CONFOUNDERS) if _is_scalar(facts.get(name))},
        "evidence": evidence,
    }


def number_of(value: object) -> float | None:
    """A finite number of zero or more."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
    return float(value) if fits else None  # type: ignore[arg-type]


def product(one: object, other: object) -> float | None:
    """The product of two such numbers; None if one is none."""
    a, b = number_of(one), number_of(other)
    return None if a is None or b is None else a * b


def speedup_of(value: object) -> Speedup | None:
    """[low, high or null]: the best case need not be known."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    low, high = number_of(value[0]), number_of(value[1])
    return None if low is None or (high is None and value[1] is not None) else (low, high)


def _range(value: object) -> list[float | None] | None:
    speedup = speedup_of(value)
    return None if speedup is None else list(speedup)


def _numbers(values: object) -> list[float]:
    """The last of the numbers, none if one is none."""
    listed = [number_of(value) for value in values[-_MOST_STEPS:]] if isinstance(values, list | tuple) else []
    known = [value for value in listed if value]
    return known if len(known) == len(listed) else []


def _is_scalar(value: object) -> bool:
    return isinstance(value, bool | str) or number_of(value) is not None


def _listed(table: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    entries = table.get(key)
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []


def _table(table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = table.get(key)
    return value if isinstance(value, Mapping) else {}
