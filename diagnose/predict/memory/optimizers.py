"""Memory of the job with other optimizers, by the bytes of their states."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from diagnose.predict.memory.estimate import memory_estimate, optimizer_bytes
from diagnose.predict.memory.job import JobPlan

ROUNDED = "rounds the states"
OTHER = "another algorithm: tune the learning rate again"
_CHOICES: Mapping[str, Mapping[str, str]] = {
    "adamw": {"adamw-8bit": ROUNDED, "adafactor": OTHER, "lion": OTHER, "sgd-momentum": OTHER},
    "adamw-8bit": {"adamw": "keeps whole states", "adafactor": OTHER, "lion-8bit": OTHER},
    "lion": {"lion-8bit": ROUNDED},
    "lion-8bit": {"lion": "keeps whole states"},
    "adafactor": {"adamw-8bit": OTHER, "adamw": OTHER},
    "sgd-momentum": {"sgd": OTHER},
    "sgd": {},
}
SPOKEN = {
    "adamw": "AdamW",
    "adamw-8bit": "8-bit AdamW",
    "lion": "Lion",
    "lion-8bit": "8-bit Lion",
    "sgd": "SGD without momentum",
    "sgd-momentum": "SGD with momentum",
    "adafactor": "Adafactor",
}


@dataclass(frozen=True)
class OptimizerChoice:
    """A job with one optimizer.

    Attributes:
        name: the optimizer, in the words of a report.
        plan: the job with it.
        parameter_bytes: states and master weight of each parameter, before ZeRO divides them.
        state_bytes: the same on the fullest rank.
        total_bytes: of the rank's estimate.
        numerics: what it does to training; "" for the optimizer that runs.
    """

    name: str
    plan: JobPlan
    parameter_bytes: float
    state_bytes: int
    total_bytes: int
    numerics: str


def optimizer_choices(plan: JobPlan) -> tuple[OptimizerChoice, ...]:
    """The job's optimizer, then those that it may be changed for. A fused form has the states of its optimizer."""
    return tuple(_choice(plan, name, told) for name, told in {plan.optimizer: "", **_CHOICES[plan.optimizer]}.items())


def _choice(plan: JobPlan, name: str, numerics: str) -> OptimizerChoice:
    changed = replace(plan, optimizer=name)
    estimate = memory_estimate(changed)
    return OptimizerChoice(
        name=SPOKEN[name],
        plan=changed,
        parameter_bytes=optimizer_bytes(changed) + changed.precision.master_bytes,
        state_bytes=estimate.bytes_of("optimizer states") + estimate.bytes_of("master weights"),
        total_bytes=estimate.total_bytes,
        numerics=numerics,
    )
