"""The framework that runs the training loop, in whose words changes are given, and packages installed there."""

import re

from diagnose.facts import DIAGNOSE_RUN, Unknown, Value
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.unknowns import NO_PYTHON
from diagnose.probes.protocol import ACCELERATE, BARE_LOOP, DEEPSPEED, LIGHTNING, LOOPS, TRAINER
from diagnose.trace.vocabulary import PYTHON

_IN = r"\(\d+\): (?!<module>)"  # a function that runs: an import only runs the module
_MARKS = {
    TRAINER: re.compile(rf"\btransformers/trainer\.py{_IN}"),
    LIGHTNING: re.compile(
        r"\[pl\]|\[(Strategy|LightningModule|LightningDataModule)\]"
        rf"|.*\b(lightning/pytorch|pytorch_lightning)/(trainer|loops)/\S+\.py{_IN}"
    ),
    ACCELERATE: re.compile(rf"Accelerator\.|.*\baccelerate/(accelerator|optimizer)\.py{_IN}"),
    DEEPSPEED: re.compile(
        rf"DeepSpeedEngine\.|(Pre|Post)BackwardFunction(For)?Module|LinearFunctionForZeroStage3|.*\bdeepspeed/runtime/\S+\.py{_IN}"
    ),
}
_UNTOLD = Unknown("the trace does not say what runs the training loop", DIAGNOSE_RUN)


@metric("text", needs_gpu=False)
def training_loop(m: Measured) -> Value:
    """The framework that runs the training loop: "transformers Trainer", "Lightning", "Accelerate", "DeepSpeed", or
    "bare loop".

    Taken from the record, else from the names of ranges and Python functions: the first that is found, since each may
    use those after it.
    """
    recorded = m.record.text("training_loop")
    if recorded in LOOPS:
        return recorded
    if isinstance(m.record.get("training_arguments"), dict):
        return TRAINER
    names = m.timeline.trace.names
    for loop, mark in _MARKS.items():
        find = mark.search if loop == TRAINER else mark.match
        if any(find(name) for name in names):
            return loop
    if m.timeline.trace.rows_of(*PYTHON).any():
        return BARE_LOOP
    return NO_PYTHON if m.timeline.trace.left_out else _UNTOLD


@metric("flag", needs_gpu=False)
def liger_installed(m: Measured) -> Value:
    """Whether Liger (liger-kernel) is installed in the job's environment."""
    return _installed(m, "liger_kernel")


@metric("flag", needs_gpu=False)
def flash_attention_3_installed(m: Measured) -> Value:
    """Whether FlashAttention-3 is installed in the job's environment, or `kernels`, through which transformers fetches
    it.
    """
    return _installed(m, "flash_attn_3", "kernels")


@metric("flag", needs_gpu=False)
def uses_liger_loss(m: Measured) -> Value:
    """Whether Liger's fused linear cross entropy runs, by its name in the trace."""
    return any(name.startswith("LigerFusedLinearCrossEntropy") for name in m.timeline.trace.names)


def _installed(m: Measured, *packages: str) -> Value:
    """Whether one of the packages is installed; unknown if the record lacks one of them and shows no other."""
    versions = m.record.get("versions")
    known = versions if isinstance(versions, dict) else {}
    if any(known.get(package) for package in packages):
        return True
    return False if all(package in known for package in packages) else m.unrecorded
