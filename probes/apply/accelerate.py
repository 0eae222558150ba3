"""Patches of accelerate's Accelerator, in loops that make one themselves."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..guard import guarded
from .compile import not_compiled
from .constructors import patched_init, values_for
from .device import gpu_is_there
from .job_patch import JobPatch, job_patch
from .of_libraries import plugin_refused

TARGET = "accelerator"


def install() -> None:
    """Patch each Accelerator made from now on; without a patch for it, change nothing."""
    if job_patch() is not None:
        guarded(_install, "the patch is not applied to the Accelerator")


def _install() -> None:
    patched_init(sys.modules["accelerate.accelerator"].Accelerator, TARGET, _chosen, _held_back)


def _chosen(patch: JobPatch, given: dict[str, Any]) -> dict[str, Any]:
    wanted = values_for(patch, TARGET)
    refusal = plugin_refused(given.get("dynamo_plugin"))
    if not refusal and _compiles(wanted):
        refusal = not_compiled(gpu_is_there() and not given.get("cpu"))
    if refusal and "dynamo_backend" in wanted:
        patch.refuse(TARGET, "dynamo_backend", refusal)
        wanted.pop("dynamo_backend")
    return wanted


def _compiles(wanted: dict[str, Any]) -> bool:
    return wanted.get("dynamo_backend", "no") != "no"


def _held_back(arguments: dict[str, Any]) -> Callable[[], None]:
    """Return a function that undoes the shared state: an Accelerator sets it before it rejects the values."""
    state: Any = sys.modules["accelerate.state"].AcceleratorState
    was_made = bool(state._shared_state)

    def go_back() -> None:
        if not was_made:
            state._reset_state()

    return go_back
