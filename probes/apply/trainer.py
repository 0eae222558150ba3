"""Patches at the Trainer: arguments that were made or changed past the patch, and what its data or model rules out."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from inspect import signature
from typing import Any

from ..guard import guarded, told
from ..hand_over import replace
from ..interrupts import let_out
from .constructors import values_for, workers_refused
from .job_patch import JobPatch, job_patch
from .training import NEED_WORKERS, TARGET, WORKERS, Wanted, constructed, original_value, wanted_of

_CHECKPOINTING = ("activation_checkpointing", "gradient_checkpointing")
_GROUPING = ("train_sampling_strategy", "group_by_length")
_UNLISTED = (
    "lengths are taken by going through the whole dataset, which only a list and a datasets.Dataset with a column "
    "length or input_ids are known to allow"
)


def install() -> None:
    """Look at every Trainer made from now on; without a patch for its arguments, change nothing."""
    if job_patch() is not None:
        guarded(_install, "the patch is not applied to Trainer")


def _install() -> None:
    patch = job_patch()
    kind: Any = sys.modules["transformers.trainer"].Trainer
    if patch is None or not values_for(patch, TARGET):
        return
    its_own = kind.__init__

    def made(original: Any, trainer: Any, *args: Any, **kwargs: Any) -> None:
        given = signature(its_own).bind
        guarded(lambda: _prepare(patch, given(trainer, *args, **kwargs).arguments), "patch not checked")
        original(trainer, *args, **kwargs)

    replace(kind, "__init__", made, "patch not checked", "__diagnose_apply__")


def _prepare(patch: JobPatch, given: dict[str, Any]) -> None:
    arguments = given.get("args")
    if arguments is None or not hasattr(type(arguments), "__dataclass_fields__"):
        return
    wanted = wanted_of(patch, arguments)
    differing = {key: change for key, change in wanted.items() if getattr(arguments, change[0]) != change[1]}
    late = {key: change for key, change in differing.items() if not patch.is_refused(TARGET, key)}
    if late:
        _apply_late(patch, arguments, late)
    for key, (field, value) in wanted.items():
        because = _ruled_out(field, value, given)
        if because and getattr(arguments, field) == value:
            _take_back(patch, arguments, key, field, because)


def _apply_late(patch: JobPatch, arguments: Any, wanted: Wanted) -> None:
    """The arguments as they would have been made with the patch, in the same object."""
    build = getattr(sys.modules["transformers.training_args"].TrainingArguments.__post_init__, "__wrapped__", None)
    again = copy.copy(arguments)
    handled = sys.exc_info()[1]
    try:
        if build is None or getattr(arguments, "deepspeed", None):
            raise ValueError("these arguments were made before the patch")
        constructed(patch, again, build, wanted)
    except Exception as error:
        let_out(error, handled)
        for key in wanted:
            patch.take_back(TARGET, key, told(error))
        return
    vars(arguments).update(vars(again))


def _ruled_out(field: str, value: Any, given: dict[str, Any]) -> str:
    """Why this Trainer's data or model cannot take the value; empty when they can."""
    model = given.get("model")
    if field == WORKERS and value:
        reasons = (workers_refused(dataset, 1) for dataset in _datasets(given))
        return next((reason for reason in reasons if reason), "")
    if field in _CHECKPOINTING and value and getattr(model, "supports_gradient_checkpointing", True) is False:
        return f"{type(model).__name__} does not support it"
    if field in _GROUPING and value in (True, "group_by_length"):
        names = (getattr(given.get("args"), "length_column_name", None), "input_ids")
        listed = all(_lists_lengths(dataset, names) for dataset in _datasets(given))
        return "" if listed else _UNLISTED
    return ""


def _datasets(given: dict[str, Any]) -> list[Any]:
    evaluated = given.get("eval_dataset")
    several = list(evaluated.values()) if isinstance(evaluated, dict) else [evaluated]
    return [dataset for dataset in [given.get("train_dataset"), *several] if dataset is not None]


def _lists_lengths(data: Any, names: tuple[str | None, ...]) -> bool:
    """Whether the lengths of all samples are at hand: a list, or a table of datasets with one of the columns.

    The sampler goes through anything else by `for`, which computes each sample, and has no end without an IndexError.
    """
    if type(data) in (list, tuple):
        return bool(data) and isinstance(data[0], Mapping) and "input_ids" in data[0]
    if not type(data).__module__.startswith("datasets.") or type(data).__name__ != "Dataset":
        return False
    transformed = getattr(data, "format", {}).get("type") == "custom"
    return not transformed and any(name in data.column_names for name in names)


def _take_back(patch: JobPatch, arguments: Any, key: str, field: str, because: str) -> None:
    if original_value(arguments, field) == getattr(arguments, field):
        return  # the script asks for it too
    names = _CHECKPOINTING if field in _CHECKPOINTING else (field,)
    for name in (name for name in names if hasattr(arguments, name)):
        setattr(
            arguments, name, bool(original_value(arguments, name)) if names[1:] else original_value(arguments, name)
        )
    patch.take_back(TARGET, key, because)
    if field == WORKERS and not getattr(arguments, WORKERS):
        for name in (name for name in NEED_WORKERS if name in values_for(patch, TARGET)):
            setattr(arguments, name, original_value(arguments, name))
            patch.take_back(TARGET, name, f"it needs {WORKERS} above 0")
