"""The class of each part of a predicted step, by which the iron law has its term."""

from collections.abc import Mapping

from diagnose.commands.fit.step_time import PredictedStep
from diagnose.diagnosis.iron_law import IRON_LAW
from diagnose.diagnosis.terms import CauseClass
from diagnose.predict.memory.job import JobPlan

PART_CLASSES: Mapping[str, CauseClass] = {
    "matrix products": "compute",
    "attention": "compute",
    "recomputation": "compute",
    "elementwise": "memory",
    "loss": "memory",
    "routing of tokens": "memory",
    "adapters": "memory",
    "weights from 4 bits": "memory",
    "copies for transfers": "memory",
    "optimizer": "memory",
    "tensor-parallel transfers": "communication",
    "exchange of keys and values": "communication",
    "exchange of tokens": "communication",
    "sharded weights": "communication",
    "data-parallel transfers": "communication",
    "hand-over between stages": "communication",
    "pipeline bubble": "communication",
    "waiting for the slowest rank": "communication",
    "stalls": "communication",
    "waiting for launches and latencies": "host",
    "waiting for each expert's tokens": "host",
    "once a step": "host",
}


def class_of(part: str, plan: JobPlan) -> CauseClass:
    """The class of a part of the plan's step; eager attention is mostly the traffic of its scores."""
    return "memory" if part == "attention" and plan.attention == "eager" else PART_CLASSES[part]


def seconds_by_class(step: PredictedStep) -> dict[CauseClass, float]:
    """Seconds of the step by class."""
    found: dict[CauseClass, float] = {}
    for name, seconds in step.parts.items():
        class_ = class_of(name, step.plan)
        found[class_] = found.get(class_, 0.0) + seconds
    return found


def seconds_by_term(step: PredictedStep) -> dict[str, float]:
    """Seconds of the step by the term of the iron law; all terms are there."""
    found: dict[str, float] = {of.term: 0.0 for of in IRON_LAW.values() if of.term}
    for class_, seconds in seconds_by_class(step).items():
        found[IRON_LAW[class_].term] += seconds
    return found
