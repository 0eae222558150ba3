"""Hooks into transformers' Trainer: its ranges, and a callback that ends a step at `on_step_end`.

A step lasts from one `on_step_end` to the next, so it holds the fetch of its own batches, which Trainer does before
`on_step_begin`. Methods are wrapped on the classes that define them, so that subclasses which override them are seen,
trainers stay picklable, and a trainer is freed when its last reference goes.
"""

from __future__ import annotations

import sys
from functools import wraps
from typing import Any

from . import ranges
from .config import Config, default_out
from .guard import guarded
from .held import attributes, held
from .ranges import wrap_method
from .session import Session, configure, session

METHODS = {
    "get_batch_samples": ranges.DATA_WAIT,
    "_prepare_inputs": ranges.TO_DEVICE,
    "compute_loss": ranges.FORWARD,
    "_clip_grad_norm": ranges.CLIP,
    "_maybe_log_save_evaluate": ranges.LOG,
    "log": ranges.LOG,
    "_evaluate": ranges.EVAL,
    "evaluate": ranges.EVAL,
    "_save_checkpoint": ranges.SAVE,
    "save_model": ranges.SAVE,
}
ACCELERATOR_METHODS = {
    "backward": ranges.BACKWARD,
    "clip_grad_norm_": ranges.CLIP,
    "clip_grad_value_": ranges.CLIP,
}


def install() -> None:
    """Hook every Trainer of this process that is made from now on; without a session, do nothing."""
    if session() is not None:
        guarded(_install, "no hooks in Trainer")


def _install() -> None:
    from transformers import trainer

    from .torch_hooks import watch_loaders

    watch_loaders()
    wrap_accelerate()
    kind: Any = trainer.Trainer
    _wrap_class(kind)
    if not hasattr(kind.__init__, "__diagnose__"):
        kind.__init__ = _adopting(kind.__init__)
        kind.train = _flushing(kind.train)


def wrap_accelerate() -> None:
    """Put accelerate's backward, clipping, optimizer step and copies to the device inside ranges, if it is imported."""
    accelerator: Any = sys.modules.get("accelerate.accelerator")
    optimizer: Any = sys.modules.get("accelerate.optimizer")
    loader: Any = sys.modules.get("accelerate.data_loader")
    if accelerator is not None:
        for method, name in ACCELERATOR_METHODS.items():
            wrap_method(accelerator.Accelerator, method, name)
    if optimizer is not None:
        wrap_method(optimizer.AcceleratedOptimizer, "step", ranges.OPTIMIZER)
    copy = getattr(loader, "send_to_device", None)
    if copy is not None and not hasattr(copy, "__diagnose__"):
        loader.send_to_device = ranges.ranged(copy, ranges.TO_DEVICE)


def _wrap_class(kind: type) -> None:
    for method, name in METHODS.items():
        wrap_method(kind, method, name)


def _adopting(original: Any) -> Any:
    @wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        guarded(lambda: _adopt(self), "no hooks in this Trainer")

    __init__.__diagnose__ = "init"  # type: ignore[attr-defined]
    return __init__


def _adopt(trainer: Any) -> None:
    base: Any = sys.modules["transformers.trainer"].Trainer
    for kind in type(trainer).__mro__[:-1]:
        if issubclass(kind, base):
            _wrap_class(kind)
    handler = held(trainer, "callback_handler")
    present = any(issubclass(type(callback), _Steps) for callback in held(handler, "callbacks") or ())
    if not present:
        sys.modules["transformers.trainer"].Trainer.add_callback(trainer, _callback_class()())


def _flushing(original: Any) -> Any:
    """`train` that ends the window however it ends; with an exception, before the job deals with that."""

    @wraps(original)
    def train(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            found = original(self, *args, **kwargs)
        except BaseException:
            _train_ended(broke=True)
            raise
        _train_ended(broke=False)
        return found

    return train


def _train_ended(broke: bool) -> None:
    current = session()
    if current is not None and current.source == "trainer":
        current.loop_ended("training ended", broke=broke)


class _Steps:
    """What the callback does with the Trainer's events; the base class it needs is known only once transformers is."""

    diagnose_session: Session | None = None

    def __reduce__(self) -> Any:
        """A pickle or a copy of the job's has a callback that does nothing in this place, and needs none of us."""
        return sys.modules["transformers.trainer_callback"].TrainerCallback, ()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        current = self.diagnose_session or session()
        if current is not None:
            guarded(lambda: _begin(current, args, state, kwargs), "no capture")

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        current = self.diagnose_session or session()
        if current is not None and current.source == "trainer":
            current.step_ended()
            if current.stop_asked:
                control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        current = self.diagnose_session or session()
        if current is not None and current.source == "trainer":
            current.loop_ended("training ended")


def _begin(current: Session, args: Any, state: Any, kwargs: dict[str, Any]) -> None:
    seen = current.seen
    seen.arguments = args
    seen.batches.clear()
    seen.note("model", kwargs.get("model"))
    optimizer = kwargs.get("optimizer")
    seen.note("optimizer", attributes(optimizer).get("optimizer", optimizer))
    if kwargs.get("train_dataloader") is not None:
        seen.note_loader(kwargs["train_dataloader"])
    wrap_accelerate()
    left = state.max_steps - state.global_step
    current.loop_begins("trainer", left if left > 0 else None)


def _callback_class() -> Any:
    global _class
    if _class is None:
        from transformers.trainer_callback import TrainerCallback

        _class = type("DiagnoseSteps", (_Steps, TrainerCallback), {})
    return _class


_class: Any = None


def DiagnoseCallback(
    out_dir: str | None = None, *, steps: int = 3, warmup: int = 2, skip: int = 10, at_step: int | None = None
) -> Any:
    """A TrainerCallback that captures one window of `steps` into `out_dir` (default: diagnose-runs/<time>).

    Make it before the Trainer: `Trainer(..., callbacks=[DiagnoseCallback("runs/a")])`. Under `diagnose run`, the
    settings given there win.
    """
    callback = _callback_class()()
    config = Config(out_dir or default_out(), steps=steps, warmup=warmup, skip=skip, at_step=at_step)
    callback.diagnose_session = session() or configure(config)
    install()
    return callback
