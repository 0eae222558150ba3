"""Changes of a patch that transformers' arguments, or the data and model of a Trainer, rule out, by reading them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from inspect import signature
from typing import Any

from ..introspection import attributes, is_a
from .compile import not_compiled
from .device import gpu_is_there
from .of_loader import pinning_refused
from .reasons import Reason, Refusal
from .samples import grouping_refused, open_file, workers_refused

TARGET = "training_arguments"
WORKERS = "dataloader_num_workers"
NEED_WORKERS = ("dataloader_persistent_workers", "dataloader_prefetch_factor")
CHECKPOINTING = ("activation_checkpointing", "gradient_checkpointing")
_GROUPING = ("train_sampling_strategy", "group_by_length")
_COMPILING = ("torch_compile", "torch_compile_backend", "torch_compile_mode")
_OTHER_PRECISION = {"bf16": "fp16", "fp16": "bf16"}
_IN_DEEPSPEED = {  # the key of its config that has to agree with the argument
    "per_device_train_batch_size": "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "bf16": "bf16.enabled",
    "fp16": "fp16.enabled",
}
_SAME = {  # names of one argument in different versions
    "eval_strategy": "evaluation_strategy",
    "evaluation_strategy": "eval_strategy",
    "activation_checkpointing": "gradient_checkpointing",
}
Wanted = dict[str, tuple[str, Any]]  # by key of the patch: the field of this version, and its value


def spelled(key: str, value: Any, fields: Any) -> tuple[str | None, Any]:
    """The field of this version that `key` stands for, and its value there; no field when there is none."""
    if key == "gradient_checkpointing" and "activation_checkpointing" in fields:
        return "activation_checkpointing", value
    if key in fields:
        return key, value
    if key == "train_sampling_strategy" and "group_by_length" in fields:
        return "group_by_length", value == "group_by_length"
    if key == "group_by_length" and "train_sampling_strategy" in fields:
        return "train_sampling_strategy", "group_by_length" if value else "random"
    same = _SAME.get(key)
    return (same if same in fields else None), value


def refused(
    field: str | None, value: Any, arguments: Any, wanted: Wanted, asked: Mapping[str, Any] | None = None
) -> Refusal | None:
    """Why a value would fail or do harm; trying the constructor finds what else it rejects.

    Args:
        field: of this version; None if it has none.
        value: to set it to.
        arguments: of the job.
        wanted: the values of the patch that they take so far.
        asked: all values of the patch.
    """
    if field is None:
        return Refusal(Reason.NO_ARGUMENT, "transformers")
    now = getattr(arguments, WORKERS, 0)
    if field == WORKERS or field in NEED_WORKERS:
        return _workers_refused(field, value, arguments, wanted.get(WORKERS, (WORKERS, now))[1])
    if field == "use_liger_kernel" and value:
        return _liger_refused(arguments)
    if field == "optim" and not str(getattr(arguments.optim, "value", arguments.optim)).startswith("adamw_torch"):
        return Refusal(Reason.ANOTHER_OPTIMIZER)
    if field in _COMPILING and value:
        return not_compiled(_on_gpu(arguments))
    if field == "tf32" and value and not _has_tf32():
        return Refusal(Reason.NO_TF32)
    return _precision_refused(field, value, arguments, asked or {}) or _of_deepspeed(field, value, arguments)


def _liger_refused(arguments: Any) -> Refusal | None:
    if find_spec("liger_kernel") is None:
        return Refusal(Reason.NO_LIGER)
    if not _on_gpu(arguments):
        return Refusal(Reason.NO_GPU_FOR_LIGER)
    return not_compiled(on_gpu=True)


def _workers_refused(field: str, value: Any, arguments: Any, workers: Any) -> Refusal | None:
    if field in NEED_WORKERS:
        needs = value and not workers
        return Refusal(Reason.NEEDS_WORKERS, WORKERS, unless_set=WORKERS) if needs else None
    if value:
        return workers_refused(None, getattr(arguments, WORKERS, 0))
    if any(getattr(arguments, name, None) for name in NEED_WORKERS):
        return Refusal(Reason.WORKERS_STAY, "persistent workers or prefetch factor")
    return None


def _precision_refused(field: str, value: Any, arguments: Any, asked: Mapping[str, Any]) -> Refusal | None:
    other = _OTHER_PRECISION.get(field)
    if not value or other is None or getattr(arguments, field) or not getattr(arguments, other, False):
        return None
    return None if other in asked else Refusal(Reason.ONE_PRECISION, other)  # two requested ones are tried together


def _of_deepspeed(field: str, value: Any, arguments: Any) -> Refusal | None:
    """Why an argument that DeepSpeed's config holds as well cannot be another; None if it can."""
    config, key = getattr(arguments, "deepspeed", None), _IN_DEEPSPEED.get(field)
    if not config or key is None:
        return None
    if not is_a(config, dict):
        return Refusal(Reason.IN_DEEPSPEED_FILE, key)
    there: Any = config
    for part in key.split("."):
        there = there.get(part) if is_a(there, dict) else None
    return None if there in (None, "auto", value) else Refusal(Reason.OF_DEEPSPEED, key)


def ruled_out(field: str, value: Any, given: Mapping[str, Any]) -> Refusal | None:
    """Why a Trainer's data or model cannot take the value; None when they can. `given` is what it is made of."""
    model = given.get("model")
    if field == WORKERS and value:
        return _first(datasets_of(given), lambda dataset: workers_refused(dataset, 1) or open_file(dataset))
    if field == "dataloader_pin_memory" and value:
        return _first(datasets_of(given), pinning_refused)
    if field in CHECKPOINTING and value and getattr(type(model), "supports_gradient_checkpointing", True) is False:
        return Refusal(Reason.NO_CHECKPOINTING, type(model).__name__)
    if field in _GROUPING and value in (True, "group_by_length"):
        length = attributes(given.get("args")).get("length_column_name")
        length = length if _keeps_column(length, given) else None
        inputs = input_name(given)
        return _first(datasets_of(given), lambda dataset: grouping_refused(dataset, length, inputs))
    return None


def datasets_of(given: Mapping[str, Any]) -> list[Any]:
    """The datasets of a Trainer: of training, and of each evaluation."""
    evaluated = given.get("eval_dataset")
    several = list(evaluated.values()) if type(evaluated) is dict else [evaluated]
    return [dataset for dataset in [given.get("train_dataset"), *several] if dataset is not None]


def _first(datasets: list[Any], refused_for: Callable[[Any], Refusal | None]) -> Refusal | None:
    """The first refusal, of the job before those of the patch alone."""
    refusals = [refusal for refusal in map(refused_for, datasets) if refusal]
    return min(refusals, key=lambda refusal: refusal.binds, default=None)


def input_name(given: Mapping[str, Any]) -> str:
    """Name of the model's input, as the Trainer takes it from the tokenizer or feature extractor."""
    processing = given.get("processing_class") or given.get("tokenizer")
    names = getattr(type(processing), "model_input_names", None)
    names = attributes(processing).get("model_input_names", names)
    return names[0] if type(names) in (list, tuple) and names and type(names[0]) is str else "input_ids"


def _keeps_column(name: Any, given: Mapping[str, Any]) -> bool:
    """Whether the Trainer's sampler sees the column: it leaves out those that the model's forward does not take."""
    if attributes(given.get("args")).get("remove_unused_columns") is False:
        return True
    kind: Any = type(given.get("model"))
    parameters = signature(kind.forward).parameters if hasattr(kind, "forward") else {}
    return name in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


def _on_gpu(arguments: Any) -> bool:
    on_cpu = getattr(arguments, "use_cpu", False) or getattr(arguments, "no_cuda", False)
    return not on_cpu and gpu_is_there()


def _has_tf32() -> bool:
    cuda: Any = sys.modules["torch"].cuda
    if not cuda.is_initialized():
        return gpu_is_there()  # its kind is only known once the GPU is in use
    return bool(cuda.get_device_capability()[0] >= 8)
