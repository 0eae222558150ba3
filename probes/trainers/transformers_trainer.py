"""Hooks into transformers' Trainer: its ranges, and a callback that ends a step at `on_step_end`.

A step lasts from one `on_step_end` to the next, so it holds the fetch of its own batches, which Trainer does before
`on_step_begin`. Methods are wrapped on the classes that define them, so that subclasses which override them are seen,
trainers stay picklable, and a trainer is freed when its last reference goes.
"""

from __future__ import annotations

import sys
from functools import wraps
from typing import Any

from .. import protocol, ranges
from ..config import Config
from ..current_session import configure, session
from ..guard import guarded
from ..held import attributes, held, plain
from ..session import Session
from . import training_loop

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
SETTINGS = [
    "per_device_train_batch_size",
    "per_device_eval_batch_size",
    "gradient_accumulation_steps",
    "max_steps",
    "num_train_epochs",
    "bf16",
    "fp16",
    "tf32",
    "bf16_full_eval",
    "optim",
    "optim_target_modules",
    "max_grad_norm",
    "gradient_checkpointing",
    "torch_compile",
    "torch_compile_backend",
    "torch_compile_mode",
    "use_liger_kernel",
    "dataloader_num_workers",
    "dataloader_pin_memory",
    "dataloader_persistent_workers",
    "dataloader_prefetch_factor",
    "dataloader_drop_last",
    "group_by_length",
    "train_sampling_strategy",
    "logging_steps",
    "logging_strategy",
    "logging_first_step",
    "logging_nan_inf_filter",
    "eval_steps",
    "eval_strategy",
    "save_steps",
    "save_strategy",
    "ddp_find_unused_parameters",
    "ddp_bucket_cap_mb",
    "ddp_broadcast_buffers",
    "ddp_static_graph",
    "torch_empty_cache_steps",
    "average_tokens_across_devices",
    "include_num_input_tokens_seen",
    "include_tokens_per_second",
    "skip_memory_metrics",
    "lr_scheduler_type",
    "neftune_noise_alpha",
    "auto_find_batch_size",
    "full_determinism",
    "remove_unused_columns",
    "split_batches",
    "parallelism_config",
]


def install() -> None:
    """Hook every Trainer of this process that is made from now on; without a session, do nothing."""
    if session() is not None:
        guarded(_install, "no hooks in Trainer")


def _install() -> None:
    from transformers import trainer

    kind: Any = trainer.Trainer
    training_loop.watch(kind, METHODS)
    if not hasattr(kind.__init__, "__diagnose__"):
        kind.__init__ = _adopting(kind.__init__)
        kind.train = training_loop.ending_the_window(kind.train)


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
            training_loop.wrap_methods(kind, METHODS)
    handler = held(trainer, "callback_handler")
    present = any(issubclass(type(callback), _Steps) for callback in held(handler, "callbacks") or ())
    if not present:
        base.add_callback(trainer, _callback_class()())


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
        if training_loop.step_ended(self.diagnose_session or session()):
            control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        training_loop.ends(self.diagnose_session or session())


def _begin(current: Session, args: Any, state: Any, kwargs: dict[str, Any]) -> None:
    left = state.max_steps - state.global_step
    current.objects.loop = protocol.TRAINER
    training_loop.begins(
        current,
        model=kwargs.get("model"),
        optimizer=kwargs.get("optimizer"),
        loader=kwargs.get("train_dataloader"),
        settings=lambda: settings_of(args),
        steps=left if left > 0 else None,
        done=state.global_step,
    )


def settings_of(arguments: Any) -> dict[str, object]:
    """The listed settings of a TrainingArguments object."""
    values = attributes(arguments)
    known = {name: plain(values[name]) for name in SETTINGS if name in values}
    fsdp = values.get("fsdp")
    asked = bool(fsdp) if type(fsdp) in (bool, str, list, tuple, dict, type(None)) else True
    return {**known, "fsdp": asked, "deepspeed": values.get("deepspeed") is not None}


def _callback_class() -> Any:
    global _class
    if _class is None:
        from transformers.trainer_callback import TrainerCallback

        _class = type("DiagnoseSteps", (_Steps, TrainerCallback), {})
    return _class


_class: Any = None


def DiagnoseCallback(
    out_dir: str | None = None,
    *,
    steps: int = protocol.STEPS,
    warmup: int = protocol.WARMUP,
    skip: int = protocol.SKIP,
    at_step: int | None = None,
    sample_steps: int | None = None,
) -> Any:
    """A TrainerCallback that captures one window of `steps` into `out_dir` (default: diagnose-runs/<time>).

    Make it before the Trainer: `Trainer(..., callbacks=[DiagnoseCallback("runs/a")])`. Under `diagnose run`, the
    settings given there win.
    """
    callback = _callback_class()()
    out = out_dir or protocol.default_out()
    config = Config(out, steps, warmup, skip, at_step, sample_steps=sample_steps)
    callback.diagnose_session = session() or configure(config)
    install()
    return callback
