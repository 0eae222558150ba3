"""Hooks into torch's backward pass: it ends a step where the user says so, or where no optimizer is there to end one.

The first step of an optimizer takes the hook out again, unless the user asks for it.
"""

from __future__ import annotations

import sys
from typing import Any

from ..cuda_graphs import capturing
from ..current_session import session
from ..frameworks import BARE_LOOP
from ..guard import guarded, quietly
from ..hand_over import left_as_it_is, put_back, replace
from ..interrupts import AskedToEnd
from ..protocol import BY_BACKWARD
from ..seen import seen
from ..session import Session
from . import loader_hooks

ENOUGH = 5  # backward passes: then a loop that has made no optimizer of torch has none to come

_on = False
_within = 0  # backward passes that now run: a checkpoint runs one inside another


def watch() -> None:
    """Count backward passes from now on."""
    global _on
    _on = True
    replace(sys.modules["torch"].autograd, "backward", _counting, "backward passes are not counted")
    quietly(lambda: left_as_it_is(sys.modules["torch"].autograd.backward, _counting))


def optimizer_stepped() -> None:
    """Leave the steps to the optimizers, which are there; backward passes ended them so far, if anything did."""
    global _on
    current = session()
    if not _on or current is None or _is_asked(current):
        return
    _on = False
    put_back(sys.modules["torch"].autograd, "backward")
    if current.source == BY_BACKWARD:
        current.loop_ended("an optimizer began to step")


def _counting(original: Any, /, *args: Any, **kwargs: Any) -> Any:
    global _within
    _within += 1
    try:
        result = original(*args, **kwargs)
    finally:
        _within -= 1
    if _on and not _within and not capturing():
        _ended()
    return result


def _ended() -> None:
    seen.backward_passes += 1
    current = session()
    if current is None or not current.open_to(BY_BACKWARD):
        return
    if current.source is None and _is_due(current):
        guarded(lambda: _begin(current), "no capture")
    if current.source == BY_BACKWARD:
        current.step_ended()
        if current.phase == "done" and current.stop_asked:
            raise AskedToEnd(0)


def _is_due(current: Session) -> bool:
    """Whether a backward pass is to end steps: the user asks for it, or nothing else is there to end one."""
    if _is_asked(current):
        return True
    return current.untouched and seen.backward_passes >= ENOUGH and not seen.steps and not _has_optimizer()


def _is_asked(current: Session) -> bool:
    return current.config.step_on == BY_BACKWARD


def _has_optimizer() -> bool:
    """Whether the job has made an optimizer of torch: that marks the `step` of its class."""
    waiting = [sys.modules["torch"].optim.Optimizer]
    while waiting:
        kind = waiting.pop()
        if getattr(vars(kind).get("step"), "hooked", False):
            return True
        waiting.extend(type.__subclasses__(kind))
    return False


def _begin(current: Session) -> None:
    quietly(lambda: current.objects.note_loop(BARE_LOOP.name))
    batches = None if current.config.at_step else loader_hooks.longest_loader()
    passed = seen.backward_passes - 1
    current.loop_begins(BY_BACKWARD, None if batches is None else max(batches - passed, 1), passed)
    current.clock.step_is_underway()  # a loop shows first where its first backward pass ends
