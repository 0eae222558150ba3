"""The settings of Lightning's Trainer, under the names that `training_arguments` has in the record."""

from __future__ import annotations

from typing import Any

from ..introspection import own_attribute, plain

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
