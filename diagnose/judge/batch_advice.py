"""Sentences on a change of the batch: the learning rate that goes with it, and its cost in samples."""

from collections.abc import Mapping

from diagnose.diagnosis import Patch
from diagnose.facts import Facts, Unknown
from diagnose.formulas.critical_batch import LearningRateRule, learning_rate_factor, samples_factor
from diagnose.rule import Rule

_OF_BATCH = {"per_device_train_batch_size": "micro_batch_size", "gradient_accumulation_steps": "accumulation_steps"}
_SAME = 0.01  # by which whole micro-batches may miss the batch as it was
_RULES: Mapping[str, LearningRateRule] = {"linear": "linear", "square root": "square root"}


def batch_advice(rule: Rule, facts: Facts) -> str:
    """The sentences for a rule whose patch changes the batch; "" for every other one."""
    if rule.patch is None or not _OF_BATCH.keys() & rule.patch.values.keys():
        return ""
    growth = _growth(rule.patch_for(facts), facts)
    if growth is None:
        return f"If the global batch grows, {_learning_rate(None, facts)}. {_critical(None, facts)}"
    if abs(growth - 1) <= _SAME:
        return "The global batch stays as it is, and so does the learning rate."
    grows = f"The global batch becomes {growth:.2g} times as large: {_learning_rate(growth, facts)}."
    return f"{grows} {_critical(growth, facts)}" if growth > 1 else grows


def _growth(patch: Patch | None, facts: Facts) -> float | None:
    """The global batch with the change over the present one; None if a setting that it multiplies is unknown."""
    growth = 1.0
    for setting, fact in _OF_BATCH.items():
        now = _number(facts, fact)
        if patch is None or (setting in patch.set and not now):
            return None
        growth *= float(patch.set[setting]) / now if setting in patch.set and now else 1.0
    return growth


def _learning_rate(growth: float | None, facts: Facts) -> str:
    known = facts["learning_rate_rule"].value
    rule = _RULES.get(str(known))
    if isinstance(known, Unknown) or rule is None:
        return "tune the learning rate again, because how it follows the batch is unknown for this optimizer"
    optimizer = facts["optimizer_name"].value
    how = f"{rule}, as {optimizer} asks for"
    if growth is None:
        with_it = "with its square root" if rule == "square root" else "in proportion"
        return f"scale the learning rate {with_it}, as {optimizer} asks for"
    return f"multiply the learning rate by {learning_rate_factor(growth, rule):.2g} ({how})"


def _critical(growth: float | None, facts: Facts) -> str:
    """A sentence on the samples that the same loss then takes, or on how to find out."""
    over = _number(facts, "critical_batch_factor")
    if over is None:
        return (
            "Beyond the critical batch more samples save few steps. Where it lies for this job is unknown: measure the "
            "gradient noise scale (McCandlish et al. 2018) and pass --critical-batch."
        )
    if growth is None:
        return f"It is {over:.2g} times the critical batch now, beyond which more samples save few steps."
    more = samples_factor(over, growth) - 1
    times = f"It is then {over * growth:.2g} times the critical batch"
    return f"{times}: the same loss takes {100 * more:.0f} % more samples."


def _number(facts: Facts, name: str) -> float | None:
    value = facts[name].value
    return None if isinstance(value, Unknown | str) else float(value)
