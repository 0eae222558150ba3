"""Number of steps that a job made before it resumed from a checkpoint, read from its optimizer."""

from __future__ import annotations

import sys
from typing import Any

from ..cuda_graphs import capturing
from ..guard import quietly
from ..introspection import is_a, own_attribute, unseen, untouched

_MOST_READ = 16  # parameters: one that is trained later than others has fewer steps
_MOST_STEPS = 1 << 40


def steps_before(optimizer: Any) -> int:
    """Steps that the optimizer counts before the one that it has just made; 0 if it counts none.

    Adam and similar optimizers hold the number for each parameter, and a checkpoint of them holds it too.
    """
    counted = quietly(lambda: max(_counted(optimizer), default=1))
    return min(counted - 1, _MOST_STEPS) if isinstance(counted, int) and counted > 0 else 0


def _counted(optimizer: Any) -> list[int]:
    state = own_attribute(optimizer, "state")
    if not is_a(state, dict):
        return []
    entries = [entry for _, entry in zip(range(_MOST_READ), dict.values(state))]  # noqa: B905
    steps: list[Any] = [dict.get(entry, "step") for entry in entries if is_a(entry, dict)]
    numbers = [int(step) for step in steps if type(step) in (int, float)]
    tensors = [step for step in steps if type(step) is sys.modules["torch"].Tensor]
    return numbers + [_value(step) for step in tensors if step.device.type == "cpu"] or _on_device(tensors)


def _value(step: Any) -> int:
    """The value, read by NumPy: an operator of torch would be among the operators that the job counts."""
    with untouched(), unseen():
        return int(step.numpy())


def _on_device(steps: list[Any]) -> list[int]:
    """The count of one of them, which waits for the device; empty while a graph is captured, which a wait breaks."""
    if not steps or steps[0].device.type != "cuda" or capturing():
        return []
    with untouched(), unseen():
        return [int(steps[0].item())]
