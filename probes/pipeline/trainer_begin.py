"""Detect the begin of transformers' Trainer: when `train()` asks for its DataLoader, before any callback."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from ..guard import guarded
from ..hand_over import replace
from ..introspection import attributes
from .loop_begin import loop_begins, refusals, wanted


def install() -> None:
    """Watch the Trainers of this process for the begin of their training."""
    guarded(_install, "no hooks in Trainer")


def _install() -> None:
    trainer: Any = sys.modules["transformers.trainer"].Trainer
    replace(trainer, "train", _beginning, _NOT_SEEN)


def _beginning(original: Any, trainer: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Replace the method on the instance: its result includes the changes that subclasses make to the loader."""
    if wanted():
        guarded(lambda: refusals.trainer_begins(trainer), _NOT_SEEN)
        replace(trainer, "get_train_dataloader", partial(_measured, trainer), _NOT_SEEN)
    return original(trainer, *args, **kwargs)


def _measured(trainer: Any, original: Any, /, *args: Any, **kwargs: Any) -> Any:
    loader = original(*args, **kwargs)
    steps = attributes(getattr(trainer, "args", None)).get("gradient_accumulation_steps")
    loop_begins(loader, "transformers' Trainer", steps if type(steps) is int else None)
    return loader


_NOT_SEEN = "the Trainer's loop is not seen"
