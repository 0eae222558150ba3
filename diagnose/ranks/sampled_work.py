"""The stack samples of a rank in which it saves, evaluates or runs the model, reduced to their places."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Literal

import msgspec

from diagnose.diagnosis.postmortem import AloneWork
from diagnose.trace.stacks import Stack, StackSamples

_WORDS = re.compile(r"[A-Z]?[a-z]+")
_WORK: Mapping[str, AloneWork] = {
    **dict.fromkeys(("save", "saves", "saved", "saving", "checkpoint", "checkpoints", "serialize", "dump"), "saving"),
    **dict.fromkeys(("eval", "evals", "evaluate", "evaluates", "evaluation", "evaluator"), "evaluating"),
    **dict.fromkeys(("val", "valid", "validate", "validation", "infer", "inference", "predict"), "evaluating"),
}
SampledKind = Literal[AloneWork, "forward"]  # a forward pass may be training or evaluation
Place = tuple[SampledKind, str, int, str]  # the work, and the file, line and function in which it was seen


class SampledWork(msgspec.Struct, frozen=True):
    """The stack samples of a rank that may show saving or evaluating, by place; `samples` are all of them."""

    samples: int = 0
    places: Mapping[Place, int] = msgspec.field(default_factory=dict)


NO_SAMPLES = SampledWork()


def sampled_work(samples: StackSamples | None) -> SampledWork:
    """The samples in which a rank saves, evaluates or runs the model, reduced to their places."""
    places: Counter[Place] = Counter()
    for stack in samples.stacks if samples is not None else ():
        if stack.frames and (work := _work_of(stack)) != "none":
            at = stack.frames[-1]
            places[work, at.file, at.line, at.function] += stack.samples
    return SampledWork(samples.whole if samples is not None else 0, dict(places))


def _work_of(stack: Stack) -> SampledKind:
    """The work by the innermost name that says it, else whether it is a forward pass."""
    if stack.doing in ("loading", "backward", "optimizer"):
        return "none"
    inner = (name for _, name in reversed(stack.below or ()))
    names = [stack.calls, *inner, *(frame.function for frame in reversed(stack.frames))]
    told: AloneWork = next((work for name in names if (work := named(name)) != "none"), "none")
    is_forward = stack.doing == "forward"
    if is_forward and told != "evaluating":
        return "forward"
    return told


def named(name: str) -> AloneWork:
    """The work that a name states in one of its words."""
    return next((_WORK[word] for each in _WORDS.findall(name) if (word := each.lower()) in _WORK), "none")
