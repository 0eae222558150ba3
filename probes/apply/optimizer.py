"""Patches of torch.optim's optimizers: the implementation of their update, fused or in groups of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from weakref import WeakSet

from ..guard import quietly
from ..introspection import own_attribute
from .constructors import patched_init, values_for
from .job_patch import JobPatch, job_patch
from .of_torch import form_refused
from .reasons import Reason, Refusal

TARGET = "optimizer"


def install() -> None:
    """Patch the optimizers that are made from now on, of the job's subclasses too."""
    import torch

    for kind in vars(torch.optim).values():
        if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer) and kind is not torch.optim.Optimizer:
            patched_init(kind, TARGET, _chosen, _held_back)
    patch = job_patch()
    if patch is not None:
        for key, value in patch.values(TARGET).items():
            patch.holds(TARGET, key, partial(_changed_since, key, value))


def _chosen(patch: JobPatch, given: dict[str, Any]) -> dict[str, Any]:
    wanted = values_for(patch, TARGET)
    refusals = {key: form_refused(given["self"], key) for key in wanted}
    for key, refusal in refusals.items():
        if refusal:
            patch.refuse(TARGET, key, refusal)
    chosen = {key: value for key, value in wanted.items() if not refusals[key]}
    if chosen:
        quietly(lambda: _made.add(given["self"]))
    return chosen


def _held_back(arguments: dict[str, Any]) -> Callable[[], None]:
    """Return a function that restores the arguments: a constructor exhausts generators and writes into groups."""
    if isinstance(arguments.get("params"), Iterator):
        arguments["params"] = list(arguments["params"])
    given = arguments.get("params")
    groups = [group for group in given if type(group) is dict] if isinstance(given, (list, tuple)) else []
    for group in groups:
        if isinstance(group.get("params"), Iterator):
            group["params"] = list(group["params"])
    before = [dict(group) for group in groups]

    def go_back() -> None:
        for group, was in zip(groups, before):  # noqa: B905
            group.clear()
            group.update(was)

    return go_back


def _changed_since(key: str, value: Any) -> Refusal | None:
    """Why the optimizers of the job no longer have the value; None if they do."""
    for optimizer in list(_made):
        groups = own_attribute(optimizer, "param_groups") or []
        if any(group.get(key) != value for group in groups if type(group) is dict):
            return Refusal(Reason.LOADED_STATE)
    return None


_made: WeakSet[Any] = WeakSet()
