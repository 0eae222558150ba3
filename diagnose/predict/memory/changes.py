"""A rule's change as a change of the job: its settings, in TrainingArguments' words, and how it divides the memory."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from diagnose.errors import UserError
from diagnose.facts import Facts, Scalar
from diagnose.formulas.supported_kernels import has_liger
from diagnose.predict.memory.job import JobPlan
from diagnose.predict.memory.recorded import ATTENTIONS
from diagnose.rule import Rule

COMPILED = "torch.compile decides what is kept for the backward pass"
_HALF_OF_WEIGHTS = {"bfloat16": "bf16", "float16": "fp16"}


def changed(plan: JobPlan, rule: Rule, facts: Facts) -> JobPlan | str:
    """Return the job with the rule's change, unchanged if no setting affects memory, or why it is unknown.

    Args:
        plan: the job as it is.
        rule: the rule whose change is made.
        facts: facts of the job, from which values of settings are computed.
    """
    patch = rule.patch_for(facts)
    asked = patch.set if patch else {}
    if asked.get("torch_compile") or "torch_compile_mode" in asked:
        return COMPILED
    try:
        for name, value in asked.items():
            plan = _SETTINGS[name](plan, value) if name in _SETTINGS else plan
        if (divided := rule.memory_for(facts)) is None:
            return "how the change divides the training state is not known"
        return replace(plan, sharding=replace(plan.sharding, **divided)) if divided else plan  # type: ignore[arg-type]
    except UserError as error:
        return error.what


def _in_half(plan: JobPlan, half: str, on: Scalar) -> JobPlan:
    """Autocast from fp32 weights; weights that are narrow already stay as they are."""
    return replace(plan, dtype=f"{half}-mixed") if on and plan.precision.weight_bytes > 2 else plan


def _liger(plan: JobPlan, on: Scalar) -> JobPlan:
    """Liger patches only the types that it knows."""
    return replace(plan, liger=bool(on) and has_liger(plan.model.model_type) and plan.model.lm_head)


_SETTINGS: Mapping[str, Callable[[JobPlan, Scalar], JobPlan]] = {
    "per_device_train_batch_size": lambda plan, value: replace(plan, micro_batch=int(value)),
    "gradient_accumulation_steps": lambda plan, value: replace(plan, accumulation=int(value)),
    "bf16": lambda plan, value: _in_half(plan, "bf16", value),
    "fp16": lambda plan, value: _in_half(plan, "fp16", value),
    "dtype": lambda plan, value: replace(plan, dtype=_HALF_OF_WEIGHTS.get(str(value), plan.dtype)),
    "attn_implementation": lambda plan, value: replace(plan, attention=ATTENTIONS.get(str(value), plan.attention)),
    "use_liger_kernel": _liger,
    "gradient_checkpointing": lambda plan, value: replace(plan, checkpointing="full" if value else "none"),
}
