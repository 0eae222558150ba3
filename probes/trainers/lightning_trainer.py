"""Hooks into Lightning's Trainer, by either of its names: its ranges, and a step when a batch has updated.

A step ends with the batch in which `global_step` has risen, before a validation that is due then. That of manual
optimization rises once for each optimizer, so a batch that steps several is one step still.
"""

from __future__ import annotations

import sys
import weakref
from importlib import import_module
from math import ceil
from typing import Any

from ..current_session import session
from ..frameworks import LIGHTNING, LIGHTNING_ROOTS
from ..guard import guarded, quietly
from ..hand_over import Around, after_optimizer_steps, replace
from ..introspection import is_a, own_attribute, plain
from ..recording import ranges
from ..recording.range_times import Timed
from ..recording.ranges import Range
from ..session import Session
from . import training_loop

TRAINER = ("trainer.trainer", "Trainer")
FIT_LOOP = ("loops.fit_loop", "_FitLoop")
EPOCH_LOOP = ("loops.training_epoch_loop", "_TrainingEpochLoop")
STRATEGY = ("strategies.strategy", "Strategy")
PRECISION = ("plugins.precision.precision", "Precision")
METHODS = {
    ("loops.fetchers", "_DataFetcher"): {"__next__": ranges.DATA_WAIT},
    ("loops.fetchers", "_PrefetchDataFetcher"): {"__next__": ranges.DATA_WAIT},
    ("loops.optimization.automatic", "_AutomaticOptimization"): {"_training_step": ranges.FORWARD},
    ("loops.evaluation_loop", "_EvaluationLoop"): {"run": ranges.EVAL},
    ("trainer.connectors.logger_connector.logger_connector", "_LoggerConnector"): {"log_metrics": ranges.LOG},
    STRATEGY: {"batch_to_device": ranges.TO_DEVICE, "backward": ranges.BACKWARD},
    PRECISION: {"_clip_gradients": ranges.CLIP},
    TRAINER: {"save_checkpoint": ranges.SAVE},
}


def install() -> None:
    """Hook the Trainers of this process; without a session, do nothing."""
    if session() is not None:
        guarded(_install, "no hooks in Lightning")


def _install() -> None:
    for root in LIGHTNING_ROOTS:
        trainer: Any = getattr(sys.modules.get(f"{root}.{TRAINER[0]}"), TRAINER[1], None)
        if trainer is not None and not hasattr(trainer.fit, "__diagnose__"):
            _hook({path: _class(root, *path) for path in (*METHODS, FIT_LOOP, EPOCH_LOOP)})


def _class(root: str, module: str, name: str) -> Any:
    return getattr(import_module(f"{root}.{module}"), name)


def _hook(kinds: dict[tuple[str, str], Any]) -> None:
    """Install the hooks if none is missing: a Trainer that begins a loop has to end its steps, too."""
    missing = [method for path, method in _AROUND if method not in vars(kinds[path])]
    if missing:
        raise AttributeError(f"this Lightning has no {missing[0]}")
    training_loop.watch(kinds[TRAINER], {})
    for path, methods in METHODS.items():
        training_loop.wrap_methods(kinds[path], methods)
    for (path, method), around in _AROUND.items():
        replace(kinds[path], method, around, f"no hook in Lightning's {method}")
    after_optimizer_steps(lambda *_: _end_update(), "the update has no range")


def _beginning(original: Any, fit: Any, /, *args: Any, **kwargs: Any) -> Any:
    result = original(fit, *args, **kwargs)
    current = session()
    if current is not None:
        guarded(lambda: _begin(current, fit), "no capture")
    return result


def _begin(current: Session, fit: Any) -> None:
    global _counted
    trainer, loop = own_attribute(fit, "trainer"), own_attribute(fit, "epoch_loop")
    _counted = loop.global_step
    done = _counted if is_automatic(trainer) else own_attribute(loop, "_batches_that_stepped")
    for kind in type(trainer.strategy).__mro__[:-1]:
        training_loop.wrap_methods(kind, METHODS[STRATEGY])
    optimizers, alive = trainer.optimizers, weakref.ref(trainer)
    left = quietly(lambda: _left(trainer, fit, loop))
    training_loop.begins(
        current,
        LIGHTNING,
        model=None,
        optimizer=optimizers[0] if optimizers else None,
        loader=_first_loader(fit),
        settings=lambda: settings_of(alive()),
        steps=left if type(left) is int else None,
        done=done if type(done) is int else 0,
    )


_counted = 0  # `global_step` when the last step ended


def _left(trainer: Any, fit: Any, loop: Any) -> int | None:
    """Optimizer steps that are left; None in a loop without an end, or if the job does its own accumulation."""
    if not is_automatic(trainer):
        return None
    most, epochs, batches = (
        own_attribute(loop, "max_steps"),
        own_attribute(fit, "max_epochs"),
        own_attribute(fit, "max_batches"),
    )
    limits = [most] if type(most) is int and most >= 0 else []
    if type(epochs) is int and epochs >= 0 and type(batches) is int:
        limits.append(max(epochs, 1) * ceil(batches / max(own_attribute(trainer, "accumulate_grad_batches") or 1, 1)))
    left = min(limits) - _counted if limits else 0
    return left if left > 0 else None


def _first_loader(fit: Any) -> Any:
    loaders = quietly(lambda: fit._combined_loader.flattened)
    kind = sys.modules["torch.utils.data"].DataLoader
    return next((each for each in loaders if is_a(each, kind)), None) if type(loaders) is list else None


def _stepping(original: Any, loop: Any, /, *args: Any, **kwargs: Any) -> Any:
    stop = _step_ended(loop)
    result = original(loop, *args, **kwargs)
    if stop:
        own_attribute(loop, "trainer").should_stop = True
    return result


def _step_ended(loop: Any) -> bool:
    """Count a step if the batch that has ended updated; whether training is to stop."""
    global _counted
    before, now = _counted, quietly(lambda: loop.global_step)
    if type(now) is not int or now == before:
        return False
    _counted = now
    return training_loop.step_ended(session())


# Lightning hands torch's optimizer a closure that runs the passes: the update is what is left of its step after that.

_update: Range | Timed | None = None


def _updating(original: Any, /, *args: Any, **kwargs: Any) -> Any:
    result = original(*args, **kwargs)
    _begin_update()
    return result


def _updated(original: Any, /, *args: Any, **kwargs: Any) -> Any:
    try:
        return original(*args, **kwargs)
    finally:
        _end_update()  # a scaler that finds an overflow makes no step


def _begin_update() -> None:
    global _update
    if _update is None:
        _update = ranges.asked_for(ranges.OPTIMIZER)
        if _update is not None:
            _update.__enter__()


def _end_update() -> None:
    global _update
    ended, _update = _update, None
    if ended is not None:
        ended.__exit__()


_AROUND: dict[tuple[tuple[str, str], str], Around] = {
    (FIT_LOOP, "on_run_start"): _beginning,
    (EPOCH_LOOP, "on_advance_end"): _stepping,
    (PRECISION, "_after_closure"): _updating,
    (STRATEGY, "optimizer_step"): _updated,
    (TRAINER, "fit"): training_loop.ending_the_window,
}


# The settings of Lightning's Trainer, under the names that `training_arguments` has in the record.

AUTOCAST = {"bf16": "bf16-mixed", "fp16": "16-mixed"}


def is_automatic(trainer: Any) -> bool:
    """Whether Lightning runs backward pass and optimizer, and not the job's own `training_step`."""
    return bool(trainer.lightning_module.automatic_optimization)


def settings_of(trainer: Any) -> dict[str, object]:
    """The trainer's settings; accumulation in manual optimization is not known. Empty if the trainer is gone."""
    if trainer is None:
        return {}
    accumulated = own_attribute(trainer, "accumulate_grad_batches") if is_automatic(trainer) else None
    known = {
        **({} if accumulated is None else {"gradient_accumulation_steps": accumulated}),
        "max_steps": trainer.max_steps,
        "num_train_epochs": trainer.max_epochs,
        "max_grad_norm": own_attribute(trainer, "gradient_clip_val"),
        **{name: trainer.precision == cast for name, cast in AUTOCAST.items()},
        "logging_steps": trainer.log_every_n_steps,
        "logging_strategy": "steps" if trainer.loggers and trainer.log_every_n_steps else "no",
        "strategy": type(trainer.strategy).__name__,
        "num_devices": trainer.num_devices,
        "num_nodes": trainer.num_nodes,
        **_evaluation(trainer, accumulated),
        **_saving(trainer),
    }
    return {name: plain(value) for name, value in known.items()}


def _evaluation(trainer: Any, accumulated: int | None) -> dict[str, object]:
    """Settings of the validation.

    Lightning counts batches from one to the next: steps if no epoch intervenes and each updates.
    """
    batches = getattr(trainer, "val_check_batch", None)
    if not trainer.enable_validation:
        return {"eval_strategy": "no"}
    if own_attribute(trainer, "check_val_every_n_epoch") is not None:
        return {"eval_strategy": "epoch"} if batches == own_attribute(trainer.fit_loop, "max_batches") else {}
    return {"eval_strategy": "steps", "eval_steps": batches} if accumulated == 1 and type(batches) is int else {}


def _saving(trainer: Any) -> dict[str, object]:
    callbacks = trainer.checkpoint_callbacks
    steps = [every for each in callbacks if (every := own_attribute(each, "_every_n_train_steps"))]
    if not callbacks:
        return {"save_strategy": "no"}
    return {"save_strategy": "steps", "save_steps": min(steps)} if steps else {"save_strategy": "epoch"}
