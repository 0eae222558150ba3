"""Hooks into DeepSpeed's engines: their ranges, and a step of an engine when it updates.

An engine steps once for each micro-batch and updates at the accumulation boundary, maybe by one `optimizer.step` for a
group of parameters: its own `global_steps` counts the steps. It takes the place of an optimizer: a trainer that runs
the loop (transformers' Trainer, Lightning) reports its steps itself, and of several engines the last in a cycle ends
one.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

from ..current_session import session
from ..frameworks import DEEPSPEED
from ..guard import guarded, quietly
from ..hand_over import replace
from ..hooks.torch_hooks import Stepped, has_stepped, one_step
from ..introspection import own_attribute, plain
from ..protocol import SCRIPT
from ..recording import ranges
from ..recording.ranges import wrap_method

ENGINE = ("deepspeed.runtime.engine", "DeepSpeedEngine")
PIPELINE = ("deepspeed.runtime.pipe.engine", "PipelineEngine")
METHODS = {
    ENGINE: {
        "forward": ranges.FORWARD,
        "backward": ranges.BACKWARD,
        "_take_model_step": ranges.OPTIMIZER,
        "save_checkpoint": ranges.SAVE,
    },
    PIPELINE: {
        "_exec_load_micro_batch": ranges.DATA_WAIT,
        "_exec_forward_pass": ranges.FORWARD,
        "_exec_backward_pass": ranges.BACKWARD,
        "eval_batch": ranges.EVAL,
    },
}
SETTINGS = {  # as the record names them, and the engine's methods that return them
    "per_device_train_batch_size": "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "bf16": "bfloat16_enabled",
    "fp16": "fp16_enabled",
    "max_grad_norm": "gradient_clipping",
    "logging_steps": "steps_per_print",
}


def install() -> None:
    """Hook the engines of this process; without a session, do nothing."""
    if session() is not None:
        guarded(_install, "no hooks in DeepSpeed")


def _install() -> None:
    for (module, name), methods in METHODS.items():
        engine: Any = getattr(sys.modules.get(module), name, None)
        if engine is None:
            continue
        for method, range_name in methods.items():
            wrap_method(engine, method, range_name)
        step = "step" if name == ENGINE[1] else "train_batch"
        replace(engine, step, _stepping, "steps of DeepSpeed's engine are not counted")


def _stepping(original: Any, engine: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Run the method that updates, and report a step if it reached the accumulation boundary."""
    before = own_attribute(engine, "global_steps")
    quietly(lambda: _note(engine))
    with one_step():
        result = original(engine, *args, **kwargs)
    if own_attribute(engine, "global_steps") != before:
        has_stepped(engine, lambda: _stepped(engine))
    return result


def _note(engine: Any) -> None:
    """Note the engine, and whether its config makes the optimizer, whatever a trainer was asked for, or the script."""
    current, by_config = session(), own_attribute(own_attribute(engine, "_config"), "optimizer_name")
    if current is None:
        return
    current.objects.note("engine", engine)
    if by_config and own_attribute(engine, "client_optimizer") is None:
        current.objects.made_by["optimizer"] = DEEPSPEED.name
    else:
        current.objects.made_by.setdefault("optimizer", SCRIPT)


def _stepped(engine: Any) -> Stepped:
    count, alive = own_attribute(engine, "global_steps"), weakref.ref(engine)
    return Stepped(
        optimizer=own_attribute(engine, "basic_optimizer"),
        done=lambda: max(count - 1, 0) if type(count) is int else 0,
        model=(own_attribute(engine, "_modules") or {}).get("module"),
        loop=DEEPSPEED.name,
        settings=lambda: settings_of(alive()),
    )


def settings_of(engine: Any) -> dict[str, object]:
    """The listed settings of an engine that its version has; empty if the engine is gone."""
    if engine is None:
        return {}
    kind = getattr(sys.modules[ENGINE[0]], ENGINE[1])
    asked = {name: getattr(kind, method, None) for name, method in SETTINGS.items()}
    return {**{name: plain(ask(engine)) for name, ask in asked.items() if ask is not None}, "deepspeed": True}
