"""Hooks into transformers' Trainer: its ranges, and a callback that ends a step at `on_step_end`.

A step lasts from one `on_step_end` to the next, so it holds the fetch of its own batches, which Trainer does before
`on_step_begin`. Methods are wrapped on the classes that define them, so that subclasses which override them are seen,
trainers stay picklable, and a trainer is freed when its last reference goes.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from .. import protocol
from ..config import Config
from ..current_session import configure, session
from ..frameworks import TRAINER
from ..guard import guarded, quietly
from ..hand_over import a_callback, replace
from ..hooks import start_hooks
from ..introspection import attributes, own_attribute, plain
from ..recording import ranges
from ..session import Session
from . import training_loop

if TYPE_CHECKING:
    from ..reporting.report import Report

METHODS = {
    "get_batch_samples": ranges.DATA_WAIT,
    "compute_loss": ranges.FORWARD,
    "_clip_grad_norm": ranges.CLIP,
    "_maybe_log_save_evaluate": ranges.LOG,
    "log": ranges.LOG,
    "_evaluate": ranges.EVAL,
    "evaluate": ranges.EVAL,
    "_save_checkpoint": ranges.SAVE,
    "save_model": ranges.SAVE,
    # Of trainers that learn from what the model writes (TRL's GRPO, RLOO, online DPO), and of DPO's reference model
    "_generate": ranges.GENERATION,
    "_generate_single_turn": ranges.GENERATION,
    "_generate_vllm": ranges.GENERATION,
    "_calculate_rewards": ranges.REWARDS,
    "_calculate_rewards_from_functions": ranges.REWARDS,
    "_get_per_token_logps_and_entropies": ranges.LOG_PROBABILITIES,
    "_get_per_token_logps": ranges.LOG_PROBABILITIES,
    "compute_ref_log_probs": ranges.LOG_PROBABILITIES,
}
OF_THE_BASE = {"_prepare_inputs": ranges.TO_DEVICE}  # those of some subclasses generate, too
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
    "use_vllm",  # of TRL's trainers, as the rest
    "vllm_mode",
    "num_generations",
    "num_iterations",
    "steps_per_generation",
    "max_completion_length",
]


def install() -> None:
    """Hook every Trainer of this process that is made from now on; without a session, do nothing."""
    if session() is not None:
        guarded(_install, "no hooks in Trainer")


def _install() -> None:
    from transformers import trainer

    kind: Any = trainer.Trainer
    training_loop.watch(kind, METHODS | OF_THE_BASE)
    start_hooks.reads_checkpoints(kind, ("_load_from_checkpoint", "_load_optimizer_and_scheduler"))
    replace(kind, "__init__", _adopting, "no hooks in this Trainer")
    replace(kind, "train", _meeting, "no capture of this training")


def _adopting(original: Any, trainer: Any, /, *args: Any, **kwargs: Any) -> None:
    original(trainer, *args, **kwargs)
    guarded(lambda: _adopt(trainer), "no hooks in this Trainer")


def _meeting(train: Any, trainer: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Run the method `train`, after adopting a trainer that was made before the hooks."""
    guarded(lambda: _adopt(trainer), "no hooks in this Trainer")
    guarded(lambda: _begins(trainer), "what this Trainer refuses is not known")
    return training_loop.ending_the_window(train, trainer, *args, **kwargs)


def _begins(trainer: Any) -> None:
    current = session()
    if current is not None:
        quietly(lambda: current.objects.made_by.update(makers_of(trainer)))
        current.objects.refusals.trainer_begins(trainer)


_MAKES = {"optimizer": "create_optimizer", "loader": "get_train_dataloader"}
_given: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def makers_of(trainer: Any) -> dict[str, str]:
    """The Trainer or the script, by what it makes for a Trainer that begins to train.

    Arguments have no effect on what the script makes. What a Trainer holds before it first trains is given to it.
    """
    given = _given.setdefault(trainer, own_attribute(trainer, "optimizer") is not None)
    own = {what for what, method in _MAKES.items() if _replaces(type(trainer), method)}
    own |= {"optimizer"} if given else set()
    return {what: protocol.SCRIPT if what in own else TRAINER.name for what in _MAKES}


def _replaces(kind: type, method: str) -> bool:
    """Whether a subclass has a method of its own, which does not call the one that it overrides."""
    base = sys.modules["transformers.trainer"].Trainer
    own = next((vars(each)[method] for each in type.mro(kind) if method in vars(each)), None)
    if own is vars(base).get(method):
        return False
    return method not in getattr(getattr(own, "__code__", None), "co_names", (method,))


def _adopt(trainer: Any) -> None:
    base: Any = sys.modules["transformers.trainer"].Trainer
    for kind in type(trainer).__mro__[:-1]:
        if issubclass(kind, base):
            training_loop.wrap_methods(kind, METHODS | OF_THE_BASE if kind is base else METHODS)
    handler = own_attribute(trainer, "callback_handler")
    if not _ours_of(handler):
        base.add_callback(trainer, _callback_class("DiagnoseSteps")())
    *others, callback = sorted(_ours_of(handler), key=lambda ours: ours.diagnose_session is not None)
    for other in others:  # each step is counted once, by the callback of the job if it has added one
        handler.callbacks.remove(other)
    _reports_of(callback, trainer, handler)


def _ours_of(handler: Any) -> list[Any]:
    return [callback for callback in own_attribute(handler, "callbacks") or () if issubclass(type(callback), _Steps)]


def _reports_of(callback: Any, trainer: Any, handler: Any) -> None:
    """Move the callback to the front if windows are reported: loggers close when training ends, and it waits then."""
    current = callback.diagnose_session or session()
    if callback.report is None and current is not None and current.config.log:
        callback.report = _report(current)
    if callback.report is not None:
        callback.report.is_of(trainer)
        handler.callbacks.remove(callback)
        handler.callbacks.insert(0, callback)


def _report(current: Session, sends_artifacts: bool = False) -> Report:
    from ..reporting.report import Report  # a job without a report does not pay for its import

    return Report(current, sends_artifacts=sends_artifacts)


class _Steps:
    """The callback's handlers of the Trainer's events; the base class it needs is only known once transformers is."""

    diagnose_session: Session | None = None
    report: Report | None = None

    def __reduce__(self) -> Any:
        """A pickle or a copy of the job's contains a callback that does nothing instead, and does not need diagnose."""
        return sys.modules["transformers.trainer_callback"].TrainerCallback, ()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        current = self.diagnose_session or session()
        if current is not None:
            guarded(lambda: _begin(current, args, state, kwargs), "no capture")

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.report is not None:  # here, since what is logged at the end of a step takes the place of its loss
            self.report.look()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if self.report is not None and type(logs) is dict:  # before the loggers, which get the same one
            samples: Any = quietly(lambda: samples_of_a_step(args))
            self.report.adds(logs, samples)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.report is not None:
            self.report.step_ended()
        if training_loop.step_ended(self.diagnose_session or session()):
            control.should_training_stop = True

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        training_loop.ends(self.diagnose_session or session())
        if self.report is not None:
            self.report.ends()


def _begin(current: Session, args: Any, state: Any, kwargs: dict[str, Any]) -> None:
    left = state.max_steps - state.global_step
    training_loop.begins(
        current,
        TRAINER,
        model=kwargs.get("model"),
        optimizer=kwargs.get("optimizer"),
        loader=kwargs.get("train_dataloader"),
        settings=lambda: settings_of(args),
        steps=left if left > 0 else None,
        done=state.global_step,
    )


def samples_of_a_step(arguments: Any) -> float:
    """Samples in an optimizer step of all ranks."""
    return float(arguments.train_batch_size * arguments.gradient_accumulation_steps * arguments.world_size)


def settings_of(arguments: Any) -> dict[str, object]:
    """The listed settings of a TrainingArguments object."""
    values = attributes(arguments)
    known = {name: plain(values[name]) for name in SETTINGS if name in values}
    fsdp = values.get("fsdp")
    asked = bool(fsdp) if type(fsdp) in (bool, str, list, tuple, dict, type(None)) else True
    return {**known, "fsdp": asked, "deepspeed": values.get("deepspeed") is not None}


@cache
def _callback_class(name: str) -> Any:
    from transformers.trainer_callback import TrainerCallback

    return a_callback(name, _Steps, TrainerCallback, "the Trainer's steps are not counted")


def DiagnoseCallback(
    out_dir: str | None = None,
    *,
    steps: int | None = None,
    warmup: int = protocol.WARMUP,
    skip: int = protocol.SKIP,
    at_step: int | None = None,
    sample_steps: int | None = None,
    log: bool = True,
    artifacts: bool = False,
) -> Any:
    """A TrainerCallback that captures one window of `steps` into `out_dir` (default: diagnose-runs/<time>).

    The window is analysed during training. With `log` one line gives the result, and the Trainer's loggers get its
    figures; with `artifacts` W&B and MLflow get the causes and findings as a document, too.

    Make it before the Trainer: `Trainer(..., callbacks=[DiagnoseCallback("runs/a")])`. Under `diagnose run`, the
    settings given there win.
    """
    callback = _callback_class("DiagnoseCallback")()
    out = out_dir or protocol.default_out()
    config = Config(out, steps, warmup, skip, at_step, sample_steps=sample_steps)
    callback.diagnose_session = current = session() or configure(config)
    if log or artifacts:
        callback.report = _report(current, artifacts)
    install()
    return callback
