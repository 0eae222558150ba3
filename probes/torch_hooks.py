"""Hooks into torch for loops without a Trainer: an optimizer step ends a step."""

from __future__ import annotations

import _thread
from typing import Any

from . import loader_hooks, other_profilers
from .accelerate_hooks import wrap_accelerate
from .current_session import session
from .guard import guarded, quietly
from .ranges import emitter
from .resumed import steps_before
from .session import Session

FORGOTTEN_AFTER = 64  # steps of other optimizers: one that pauses longer no longer ends the cycle


def install() -> None:
    """Count optimizer steps and look at loaders from now on; without a session, do nothing."""
    if session() is not None:
        guarded(_install, "no hooks in torch")


def _install() -> None:
    global _installed
    from torch.optim.optimizer import register_optimizer_step_post_hook

    if not _installed:
        _installed = True
        register_optimizer_step_post_hook(_untraced(_after_step))
        other_profilers.watch()
        emitter()  # what it imports is imported here, and not within a step
    loader_hooks.watch_loaders()


class Cycle:
    """Which optimizer steps last in a cycle of several: the rarest, and among equals the one first seen last."""

    def __init__(self) -> None:
        self._steps: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self._now = 0

    def closed_by(self, optimizer: int) -> bool:
        """Count a step of `optimizer` and say whether it ends a training step."""
        self._now += 1
        if optimizer not in self._steps:
            self._steps[optimizer] = min(self._steps.values(), default=1) - 1
        self._steps[optimizer] += 1
        self._last[optimizer] = self._now
        if len(self._steps) == 1:
            return True
        self._forget()
        fewest = min(self._steps.values())
        return [key for key, steps in self._steps.items() if steps == fewest][-1] == optimizer

    def _forget(self) -> None:
        for key in [key for key, last in self._last.items() if self._now - last > FORGOTTEN_AFTER]:
            del self._last[key], self._steps[key]


_installed = False
_over = False  # the hook stays: torch may be going through its list of hooks
_cycle = Cycle()
_counting = _thread.allocate_lock()


def _after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    if _over or not _counting.acquire(blocking=False):  # another thread counts, or the line that a handler interrupted
        return
    try:
        _count(optimizer)
    finally:
        _counting.release()


def _count(optimizer: Any) -> None:
    current = session()
    if current is None or not current.open_to("optimizer") or not quietly(lambda: _cycle.closed_by(id(optimizer))):
        return
    if current.source is None:
        guarded(lambda: _begin(current, optimizer), "no capture")
    current.step_ended()
    if current.phase == "done" and current.source == "optimizer":
        remove()
        if current.stop_asked:
            raise SystemExit(0)


def _untraced(function: Any) -> Any:
    """`function` as torch.compile leaves it alone, where an optimizer's step is compiled."""
    import torch

    disable = getattr(torch, "_disable_dynamo", None)
    return function if disable is None else disable(function)


def _begin(current: Session, optimizer: Any) -> None:
    quietly(wrap_accelerate)
    current.objects.note("optimizer", optimizer)
    quietly(current.objects.note_loop)
    done = 0 if current.beside_a_profiler() else steps_before(optimizer)
    current.loop_begins("optimizer", None if current.config.at_step else loader_hooks.longest_loader(), done)
    current.clock.step_is_underway()  # a loop shows first where its first optimizer step ends


def remove() -> None:
    """Count no more optimizer steps."""
    global _over
    _over = True
