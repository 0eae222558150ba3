"""Patches of transformers' TrainingArguments, at construction, so that what is derived from them follows."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from ..guard import guarded, quietly, told
from ..hand_over import forgive, replace
from ..interrupts import let_out
from .allowed import ALLOWED
from .compile import compiler_missing
from .constructors import values_for, workers_refused
from .device import gpu_is_there, triton_missing
from .job_patch import JobPatch, job_patch

TARGET = "training_arguments"
WORKERS = "dataloader_num_workers"
NEED_WORKERS = ("dataloader_persistent_workers", "dataloader_prefetch_factor")
_SAME = {  # names of one argument in different versions
    "eval_strategy": "evaluation_strategy",
    "evaluation_strategy": "eval_strategy",
    "activation_checkpointing": "gradient_checkpointing",
}
Build = Callable[[Any], object]
Wanted = dict[str, tuple[str, Any]]  # by key of the patch: the field of this version, and its value


def install() -> None:
    """Patch the arguments made from now on, of subclasses too; without a patch for them, change nothing."""
    if job_patch() is not None:
        guarded(_install, "the patch is not applied to TrainingArguments")


def _install() -> None:
    patch = job_patch()
    kind: Any = sys.modules["transformers.training_args"].TrainingArguments
    if patch is None or not values_for(patch, TARGET):
        return

    def made(original: Any, arguments: Any) -> None:
        wanted = quietly(lambda: wanted_of(patch, arguments))
        if not isinstance(wanted, dict) or not wanted:
            original(arguments)
            return
        constructed(patch, arguments, original, wanted)

    replace(kind, "__post_init__", made, "the patch is not applied to TrainingArguments", "__diagnose_apply__")


def wanted_of(patch: JobPatch, arguments: Any) -> Wanted:
    """What of the patch these arguments can take; the rest is refused."""
    values = values_for(patch, TARGET)
    wanted: Wanted = {}
    for key in (key for key in ALLOWED[TARGET] if key in values):  # in this order workers come before what needs them
        field, value = _spelled(key, values[key], type(arguments).__dataclass_fields__)
        because = "this transformers has no such argument" if field is None else ""
        because = because or _refused(field, value, arguments, wanted)
        if because or field is None:
            patch.refuse(TARGET, key, because)
        else:
            wanted[key] = (field, value)
    return wanted


def constructed(patch: JobPatch, arguments: Any, build: Build, wanted: Wanted) -> None:
    """Run `build(arguments)` with as much of `wanted` as it accepts.

    Raises:
        Exception: what `build` raises without any of it.
    """
    before = dict(vars(arguments))
    accepted = dict(wanted)
    if _fails(arguments, build, before, accepted):
        _set(arguments, before, {})
        build(arguments)
        accepted = {}
        for key, change in wanted.items():
            error = _fails(arguments, build, before, {**accepted, key: change})
            if error is None:
                accepted[key] = change
            else:
                patch.refuse(TARGET, key, told(error))
        _set(arguments, before, accepted)
        build(arguments)
    for key, (field, value) in accepted.items():
        if getattr(arguments, field) == value:
            patch.applied(TARGET, [key])
        else:
            patch.refuse(TARGET, key, f"TrainingArguments makes it {getattr(arguments, field)}")
    _before[id(arguments)] = before
    for field, value in wanted.values():
        if before[field] != value:
            _given.setdefault(field, before[field])


def original_value(arguments: Any, field: str) -> Any:
    """What the script gave for `field`; for a copy of patched arguments, what it gave the first time."""
    now = getattr(arguments, field, None)
    before = _before.get(id(arguments), {}).get(field, now)
    return _given.get(field, before) if before == now else before


def _fails(arguments: Any, build: Build, before: dict[str, Any], wanted: Wanted) -> Exception | None:
    _set(arguments, before, wanted)
    handled = sys.exc_info()[1]
    try:
        build(arguments)
    except Exception as error:
        let_out(error, handled)
        forgive(build)
        return error
    return None


def _set(arguments: Any, before: dict[str, Any], wanted: Wanted) -> None:
    vars(arguments).clear()
    vars(arguments).update(before)
    vars(arguments).update(dict(wanted.values()))


def _spelled(key: str, value: Any, fields: Any) -> tuple[str | None, Any]:
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


def _refused(field: str | None, value: Any, arguments: Any, wanted: Wanted) -> str:
    """What would fail later, in the middle of training; what the constructor rejects is found by trying it."""
    workers = wanted.get(WORKERS, (WORKERS, getattr(arguments, WORKERS, 0)))[1]
    if field == WORKERS and value:
        return workers_refused(None, getattr(arguments, WORKERS, 0))
    if field == WORKERS and any(getattr(arguments, name, None) for name in NEED_WORKERS):
        return "the job's persistent workers or prefetch factor need workers"
    if field in NEED_WORKERS and value and not workers:
        return f"it needs {WORKERS} above 0"
    if field == "use_liger_kernel" and value:
        return _liger_refused(arguments)
    if field == "optim" and not str(getattr(arguments.optim, "value", arguments.optim)).startswith("adamw_torch"):
        return "the job's optimizer is another one, and would train differently"
    if field in ("torch_compile", "torch_compile_backend", "torch_compile_mode") and value:
        return _compile_refused(arguments)
    return ""


def _liger_refused(arguments: Any) -> str:
    if find_spec("liger_kernel") is None:
        return "liger-kernel is not installed"
    if not _is_on_gpu(arguments):
        return "the job has no GPU, and Liger's kernels run on one alone"
    return triton_missing()


def _compile_refused(arguments: Any) -> str:
    return compiler_missing(_is_on_gpu(arguments))


def _is_on_gpu(arguments: Any) -> bool:
    return not (getattr(arguments, "use_cpu", False) or getattr(arguments, "no_cuda", False)) and gpu_is_there()


_before: dict[int, dict[str, Any]] = {}
_given: dict[str, Any] = {}
