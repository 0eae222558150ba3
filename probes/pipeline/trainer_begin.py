"""Where the loop of transformers' Trainer begins: when `train()` asks for its DataLoader, before any callback hears."""

from __future__ import annotations

import sys
from functools import wraps
from typing import Any

from ..guard import guarded
from ..held import attributes
from .loop_begin import loop_begins, refusals, wanted


def install() -> None:
    """Look at each Trainer of this process that begins to train."""
    guarded(_install, "no hooks in Trainer")


def _install() -> None:
    trainer: Any = sys.modules["transformers.trainer"].Trainer
    if not hasattr(trainer.train, "__diagnose__"):
        trainer.train = _watched(trainer.train)


def _watched(original: Any) -> Any:
    @wraps(original)
    def train(self: Any, *args: Any, **kwargs: Any) -> Any:
        if wanted():
            refusals.trainer_begins(self)
            self.get_train_dataloader = _measured(self, self.get_train_dataloader)
        return original(self, *args, **kwargs)

    train.__diagnose__ = "train"  # type: ignore[attr-defined]
    return train


def _measured(trainer: Any, original: Any) -> Any:
    """The instance's own method in the place of the class's: what subclasses make of the loader is in it."""

    @wraps(original)
    def get_train_dataloader(*args: Any, **kwargs: Any) -> Any:
        loader = original(*args, **kwargs)
        steps = attributes(getattr(trainer, "args", None)).get("gradient_accumulation_steps")
        loop_begins(loader, "transformers' Trainer", steps if type(steps) is int else None)
        return loader

    return get_train_dataloader
