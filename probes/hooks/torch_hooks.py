"""Hooks into torch for loops without a Trainer: a step ends with that of an optimizer, or of an engine around it."""

from __future__ import annotations

import _thread
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from .. import announced
from ..cuda_graphs import capturing
from ..current_session import session
from ..dumps import flight_recorder, memory_history
from ..frameworks import BARE_LOOP
from ..guard import guarded, quietly
from ..hand_over import after_optimizer_steps, before_optimizer_steps, replace
from ..interrupts import AskedToEnd
from ..introspection import is_a, own_attribute, unseen, untouched
from ..protocol import BY_OPTIMIZER
from ..recording import other_profilers
from ..recording.range_times import times
from ..recording.ranges import OPTIMIZER, SAVE, emitter, within
from ..recording.run_time import run_time
from ..seen import seen, tell_at_exit
from ..session import Session
from ..timing import pulse
from . import backward_hooks, loader_hooks, start_hooks
from .accelerate_hooks import wrap_accelerate

FORGOTTEN_AFTER = 64  # steps of other optimizers, of few: one that pauses longer no longer ends the cycle
FORGOTTEN_EACH = 16  # steps
ABOUT_EQUAL = 1.25
MOST_OPTIMIZERS = 8192  # in one cycle


def install() -> None:
    """Count optimizer steps and watch loaders from now on; without a session, do nothing."""
    if session() is not None:
        guarded(flight_recorder.arm, "the flight recorder is not armed")
        guarded(pulse.arm, pulse.UNSEEN)
        guarded(memory_history.arm, "no memory snapshots")
        guarded(_install, "no hooks in torch")


def _install() -> None:
    global _installed
    if not _installed:
        _installed = True
        before_optimizer_steps(_before_step, "the update has no range")
        after_optimizer_steps(_after_step, "steps are not counted")
        guarded(backward_hooks.watch, "backward passes are not counted")
        replace(sys.modules["torch"], "save", within(SAVE), "saving is not timed")
        start_hooks.install()
        guarded(announced.watch, "what libraries announce is not read")
        guarded(tell_at_exit, "what was seen is not told")
        other_profilers.watch()
        emitter()  # its imports happen here, not within a step
    loader_hooks.watch_loaders()


class Cycle:
    """The optimizer that steps last in a cycle of several: of the rarest, the one that was first seen last.

    A scaler skips steps of one or the other, so the rarest are those that step about equally often. One that first
    appears among others ends nothing: the cycle that it belongs to has counted. A job may have one optimizer for each
    parameter, so a step of one looks at few of the others.
    """

    def __init__(self) -> None:
        self._steps: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self._having: dict[int, int] = {}  # optimizers by their number of steps
        self._now = 0

    def closed_by(self, optimizer: int) -> bool:
        """Count a step of `optimizer` and return whether it ends a training step."""
        if len(self._steps) == 1 and optimizer in self._steps:
            return True  # its count only matters among others
        self._now += 1
        is_new = optimizer not in self._steps
        if is_new:
            self._set(optimizer, min(self._having, default=1) - 1)
        self._set(optimizer, self._steps[optimizer] + 1)
        self._last[optimizer] = self._now
        if self._now % FORGOTTEN_EACH == 0:
            self._forget()
        if is_new and len(self._steps) > 1:
            return False
        rare = ABOUT_EQUAL * min(self._having) + 1
        return next(key for key in reversed(self._steps) if self._steps[key] <= rare) == optimizer

    def _set(self, optimizer: int, steps: int) -> None:
        self._uncount(optimizer)
        self._steps[optimizer] = steps
        self._having[steps] = self._having.get(steps, 0) + 1

    def _uncount(self, optimizer: int) -> None:
        before = self._steps.get(optimizer)
        if before is not None:
            self._having[before] -= 1
            if not self._having[before]:
                del self._having[before]

    def _forget(self) -> None:
        longest = max(FORGOTTEN_AFTER, min(2 * len(self._steps), MOST_OPTIMIZERS))
        for key in [key for key, last in self._last.items() if self._now - last > longest]:
            self._uncount(key)
            del self._last[key], self._steps[key]


class Stepped(NamedTuple):
    """Facts of a loop known from its first step.

    Attributes:
        optimizer: torch's.
        done: returns the number of steps counted before this one.
        model: None if only the optimizer's parameters are known.
        loop: what runs the training loop, as the record names it, if nothing on the stack shows it.
        settings: gives them under the names that `training_arguments` has in the record; None without any.
    """

    optimizer: Any
    done: Callable[[], int]
    model: Any = None
    loop: str = BARE_LOOP.name
    settings: Callable[[], dict[str, object]] | None = None


_installed = False
_over = False  # the hook stays: torch may be going through its list of hooks
_within = 0  # engines whose step now runs: the optimizers inside it are parts of that step
_cycle = Cycle()
_counting = _thread.allocate_lock()


@contextmanager
def one_step() -> Iterator[None]:
    """A block in which several optimizers step that together make one step, reported by `has_stepped` after it."""
    global _within
    _within += 1
    try:
        yield
    finally:
        _within -= 1


def has_stepped(what: Any, tell: Callable[[], Stepped]) -> None:
    """Count a step of an optimizer, or of an engine around several; `tell` is called if that begins a loop."""
    seen.steps += 1
    run_time.step_ended()
    loader_hooks.evaluation.stepped()
    quietly(backward_hooks.optimizer_stepped)
    if _over or not _counting.acquire(blocking=False):  # another thread counts, or the interrupted line of this one
        return
    try:
        _count(what, tell)
    finally:
        _counting.release()


def _before_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    if times.on and not any(map(callable, (*args[1:], *kwargs.values()))):  # a closure runs the passes, not the update
        times.opened(OPTIMIZER)


def _after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    if times.on:
        times.closed(OPTIMIZER)
    if not _within:
        has_stepped(optimizer, lambda: Stepped(optimizer, lambda: steps_before(optimizer)))


def _count(what: Any, tell: Callable[[], Stepped]) -> None:
    current = session()
    if current is None or not current.open_to(BY_OPTIMIZER) or not quietly(lambda: _cycle.closed_by(id(what))):
        return
    if current.source is None:
        guarded(lambda: _begin(current, tell), "no capture")
    current.step_ended()
    if current.phase == "done" and current.source == BY_OPTIMIZER:
        remove()
        if current.stop_asked:
            raise AskedToEnd(0)


def _begin(current: Session, tell: Callable[[], Stepped]) -> None:
    quietly(wrap_accelerate)
    known = tell()
    objects = current.objects
    objects.note("model", known.model)
    objects.note("optimizer", known.optimizer)
    objects.arguments = known.settings
    quietly(lambda: objects.note_loop(known.loop))
    done = 0 if current.beside_a_profiler() else known.done()
    current.loop_begins(BY_OPTIMIZER, None if current.config.at_step else loader_hooks.longest_loader(), done)
    current.clock.step_is_underway()  # a loop shows first where its first optimizer step ends


def remove() -> None:
    """Count no more optimizer steps."""
    global _over
    _over = True


# Number of steps that a job made before it resumed from a checkpoint, read from its optimizer.

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
