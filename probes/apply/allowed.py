"""The settings that a patch may make: for each target its keys, and the values of each. A patch is data, never code."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from ..facts.environment import ENVIRONMENT

Check = Callable[[object], str]  # describes the values it expects; empty if the value is allowed

_SETTING = re.compile(r"[A-Za-z0-9_.,:=^+\-\[\]]{1,200}\Z")
_LARGEST = 1_000_000_000


def _flag(value: object) -> str:
    return "" if isinstance(value, bool) else "true or false"


def _only_true(value: object) -> str:
    return "" if value is True else "true"


def _whole(least: int, most: int = _LARGEST) -> Check:
    def check(value: object) -> str:
        fits = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
        return "" if fits else f"a whole number from {least} to {most}"

    return check


def _word(*words: str) -> Check:
    return lambda value: "" if isinstance(value, str) and value in words else "one of " + ", ".join(words)


def _or_null(check: Check) -> Check:
    def checked(value: object) -> str:
        expected = check(value) if value is not None else ""
        return expected and f"{expected}, or null"

    return checked


def _setting(value: object) -> str:
    if isinstance(value, (bool, int)) or (isinstance(value, str) and _SETTING.match(value)):
        return ""
    return "letters, digits and _.,:=^+-[]"


_PRECISION = _word("float32", "bfloat16", "float16")
_WHEN = _word("no", "steps", "epoch")
ALLOWED: Mapping[str, Mapping[str, Check]] = {
    "training_arguments": {
        "per_device_train_batch_size": _whole(1),
        "gradient_accumulation_steps": _whole(1),
        "bf16": _flag,
        "fp16": _flag,
        "tf32": _flag,
        "optim": _word("adamw_torch", "adamw_torch_fused"),
        "gradient_checkpointing": _flag,
        "activation_checkpointing": _flag,
        "torch_compile": _flag,
        "torch_compile_backend": _word("inductor", "cudagraphs"),
        "torch_compile_mode": _word("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"),
        "use_liger_kernel": _flag,
        "dataloader_num_workers": _whole(0, 256),
        "dataloader_pin_memory": _flag,
        "dataloader_persistent_workers": _flag,
        "dataloader_prefetch_factor": _or_null(_whole(1, 256)),
        "dataloader_drop_last": _flag,
        "train_sampling_strategy": _word("random", "group_by_length"),
        "group_by_length": _flag,
        "logging_steps": _whole(1),
        "logging_strategy": _WHEN,
        "logging_first_step": _flag,
        "logging_nan_inf_filter": _flag,
        "eval_steps": _whole(1),
        "eval_strategy": _WHEN,
        "evaluation_strategy": _WHEN,
        "save_steps": _whole(1),
        "save_strategy": _WHEN,
        "ddp_find_unused_parameters": _or_null(_flag),
        "ddp_bucket_cap_mb": _or_null(_whole(1, 100_000)),
        "ddp_broadcast_buffers": _or_null(_flag),
        "ddp_static_graph": _or_null(_flag),
        "torch_empty_cache_steps": _or_null(_whole(1)),
        "average_tokens_across_devices": _flag,
        "include_num_input_tokens_seen": _flag,
        "skip_memory_metrics": _flag,
        "full_determinism": _flag,
    },
    "model_kwargs": {
        "attn_implementation": _word("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention"),
        "experts_implementation": _word("eager", "batched_mm", "grouped_mm"),
        "dtype": _PRECISION,
        "torch_dtype": _PRECISION,
    },
    "dataloader": {
        "num_workers": _whole(0, 256),
        "pin_memory": _flag,
        "persistent_workers": _flag,
        "prefetch_factor": _or_null(_whole(1, 256)),
    },
    "collator": {"padding": _word("longest")},
    "ddp": {
        "find_unused_parameters": _flag,
        "gradient_as_bucket_view": _flag,
        "static_graph": _flag,
        "broadcast_buffers": _flag,
        "bucket_cap_mb": _or_null(_whole(1, 100_000)),
    },
    "optimizer": {"fused": _flag, "foreach": _flag},
    "torch": {
        "float32_matmul_precision": _word("highest", "high", "medium"),
        "cudnn_benchmark": _flag,
        "compile": _only_true,
    },
    "gc": {"every_steps": _whole(1)},
    "accelerator": {
        "mixed_precision": _word("no", "bf16", "fp16"),
        "dynamo_backend": _word("no", "inductor"),
    },
    "environment": dict.fromkeys(ENVIRONMENT, _setting),
}


def why_not(target: str, key: str, value: object) -> str:
    """Why a patch cannot set `key` of `target` to `value`; empty when it can."""
    if target not in ALLOWED:
        return f"{target} is no target: {', '.join(ALLOWED)} are"
    check = ALLOWED[target].get(key)
    if check is None:
        return f"it is not among the keys of {target} that can be set"
    expected = check(value)
    return expected and f"expected {expected}"


def variable_text(value: object) -> str:
    """A value as an environment variable holds it: true is 1, false is 0."""
    return str(int(value)) if isinstance(value, bool) else str(value)


def holds(set_to: str, text: str | None) -> bool:
    """Whether a variable with `text` holds each of the comma-separated settings of `set_to`."""
    return text is not None and (text == set_to or set(set_to.split(",")) <= set(text.split(",")))
