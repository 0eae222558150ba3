"""capture-rank{R}.json: what a trace does not say. Every value passes an allow-list; a fact may be null."""

from __future__ import annotations

import os
import platform
import re
import statistics
import sys
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from .aside import aside
from .capture_cores import cores
from .capture_machine import device, environment, memory, versions
from .capture_model import model_facts, optimizer_facts, wrapped_facts
from .config import rank_and_world
from .guard import quietly
from .held import attributes, is_a

if TYPE_CHECKING:
    from .session import Session

SCHEMA_VERSION = 1
ARGUMENTS = [
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
SLURM = (
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_NTASKS",
    "SLURM_NNODES",
)
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.\- ]{0,39}\Z")
_NUMBERS = re.compile(r"[0-9]{1,20}\Z")


def facts(session: Session) -> dict[str, object]:
    """Everything known about the job and the window; a part that cannot be had is null."""
    rank, world_size = rank_and_world()
    machine = aside(lambda: _machine(world_size))  # reads files, where much of the standard library holds an OSError
    seen = session.seen
    model = quietly(lambda: _model(session))
    optimizer = seen.get("optimizer")
    arguments = seen.arguments
    return {
        "schema_version": SCHEMA_VERSION,
        "rank": rank,
        "world_size": world_size,
        **machine,
        "device": quietly(device),
        "model": quietly(lambda: model_facts(model)),
        "training_arguments": quietly(lambda: training_arguments(arguments)),
        "dataloader": quietly(lambda: seen.loader and {name: plain(value) for name, value in seen.loader.items()}),
        "batch": quietly(lambda: batch_facts(list(seen.batches))),
        "optimizer": quietly(lambda: optimizer_facts(optimizer)),
        **_wrapping(model),
        "liger": quietly(lambda: _liger(arguments)),
        "memory": quietly(memory),
        **_patch(),
        **_window(session),
    }


def _machine(world_size: int) -> dict[str, object]:
    return {
        "host": quietly(platform.node),
        "slurm": {name: os.environ[name] for name in SLURM if _NUMBERS.match(os.environ.get(name, ""))},
        "cores": quietly(lambda: cores(os.environ, world_size)),
        "versions": quietly(versions),
        "environment": quietly(lambda: environment(os.environ)),
    }


def training_arguments(arguments: Any) -> dict[str, object] | None:
    """The allowed settings of a TrainingArguments object; None without one."""
    if arguments is None:
        return None
    values = attributes(arguments)
    known = {name: plain(values[name]) for name in ARGUMENTS if name in values}
    fsdp = values.get("fsdp")
    asked = bool(fsdp) if type(fsdp) in (bool, str, list, tuple, dict, type(None)) else True
    return {**known, "fsdp": asked, "deepspeed": values.get("deepspeed") is not None}


def plain(value: Any) -> object:
    """A number, flag or single word as JSON holds it; anything else, such as a path or a token, is None."""
    if is_a(value, Enum):
        value = attributes(value).get("_value_")
    if value is None or is_a(value, int):
        return value
    if is_a(value, float):
        return value if value == value and abs(value) != float("inf") else None
    return value if is_a(value, str) and _WORD.match(value) else None


def batch_facts(batches: list[dict[str, Any]]) -> dict[str, object] | None:
    """Shapes of the last batch seen, and the mean tokens and padding of those seen; None when none was."""
    if not batches:
        return None
    tokens = [batch["tokens"] for batch in batches if batch["tokens"] is not None]
    padding = [batch["padding"] for batch in batches if batch["padding"] is not None]
    return {
        "shapes": batches[-1]["shapes"],
        "tokens": statistics.fmean(tokens) if tokens else None,
        "padding_share": statistics.fmean(padding) if padding else None,
        "batches_seen": len(batches),
    }


def _patch() -> Mapping[str, object]:
    """What a run with a patch applied of it and what it refused."""
    from . import apply

    found = quietly(apply.facts)
    return found if isinstance(found, dict) else {"applied": None, "refused": [], "expected": None}


def _window(session: Session) -> dict[str, object]:
    window, clock, recorder = session.window, session.clock, session.recorder
    phases = {"control_before": "control", "warmup": "warmup", "active": "active", "control_after": "control_after"}
    steps: dict[str, Any] = {f"{name}_ns": clock.times(phase) for name, phase in phases.items()}
    unprofiled = steps["control_before_ns"] + steps["control_after_ns"]
    factor = None
    if unprofiled and steps["active_ns"]:
        factor = statistics.median(steps["active_ns"]) / max(statistics.median(unprofiled), 1)
    return {
        "steps": {
            **steps,
            "waiting_ns": clock.waited(),
            "clock": clock.source,
            "source": session.source,
            "first_active_step": window.first_active or None if window else None,
            "settled": window.settled if window else None,
            "shortened": window.plan.shortened if window else None,
        },
        "overhead_factor": factor,
        "profiler": recorder.settings if recorder is not None else None,
        "error": session.error,
    }


def _model(session: Session) -> Any:
    """The model noted by the Trainer, else the module that holds most of the optimizer's parameters."""
    from .capture_model import module_of

    noted = session.seen.get("model")
    return module_of(session.seen.get("optimizer")) if noted is None else noted


def _wrapping(model: Any) -> Mapping[str, object]:
    found = quietly(lambda: wrapped_facts(model))
    return found if isinstance(found, dict) else {"compiled": None, "ddp": None, "fsdp": None}


def _liger(arguments: Any) -> dict[str, object]:
    """Whether Liger kernels are asked for, and whether its module is in use in this process."""
    asked = plain(attributes(arguments).get("use_liger_kernel"))
    return {"asked": asked, "loaded": "liger_kernel.transformers" in sys.modules}
