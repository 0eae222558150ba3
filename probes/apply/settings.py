"""Patches of settings of the process: torch's, and how often Python's garbage collector runs.

They are set after the job's first optimizer step, since the script makes its own settings before its loop. The
precision is also set as soon as torch is imported: code compiled in between would be compiled again.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from ..cuda_graphs import capturing
from ..current_session import session
from ..facts.torch_settings import float32_matmul_precision
from ..guard import guarded
from ..hand_over import after_optimizer_steps
from .compile import compiled_next
from .constructors import values_for
from .job_patch import JobPatch, job_patch
from .of_torch import benchmark_refused
from .reasons import Reason, Refusal

TORCH, GC = "torch", "gc"
_FIRST_GENERATIONS = 1  # of the collector: objects that survived two collections are skipped


def install() -> None:
    """Make the requested settings, after the first optimizer step at the latest."""
    patch = job_patch()
    if patch is None or not (values_for(patch, TORCH) or values_for(patch, GC)):
        return
    guarded(lambda: _set(patch, ("float32_matmul_precision",)), "the patch of torch's settings is not applied")
    for key in values_for(patch, TORCH):
        if key in _SETTINGS:
            patch.holds(TORCH, key, partial(_changed_since, patch, key))
    patch.holds(GC, "every_steps", lambda: Refusal(Reason.COLLECTS_AGAIN) if gc.isenabled() else None)
    steps = _Steps(patch)

    def step_ended(optimizer: Any, args: Any, kwargs: Any) -> None:
        if session() is not None and not capturing():
            steps.ended(optimizer)

    after_optimizer_steps(step_ended, "the patch of torch's settings is not applied")


class _Steps:
    """The optimizer steps of the job: at the first one, settings are made that the script may have changed."""

    def __init__(self, patch: JobPatch) -> None:
        self._patch = patch
        self._count = 0
        self._collect_every = 0

    def ended(self, optimizer: Any) -> None:
        """Count a step of `optimizer`: make the settings at the first one, collect garbage at each multiple."""
        self._count += 1
        if self._count == 1:
            guarded(lambda: self._first(optimizer), "the patch of torch's settings is not applied")
        elif self._collect_every and not gc.isenabled() and self._count % self._collect_every == 0:
            gc.collect(_FIRST_GENERATIONS)

    def _first(self, optimizer: Any) -> None:
        _set(self._patch, _SETTINGS)
        if values_for(self._patch, TORCH).get("compile"):
            compiled_next(self._patch, optimizer)
        every = values_for(self._patch, GC).get("every_steps")
        if every is not None:
            self._collect_every = every
            gc.collect()
            gc.freeze()
            gc.disable()
            self._patch.applied(GC, ["every_steps"])


def _set(patch: JobPatch, keys: Iterable[str]) -> None:
    wanted = values_for(patch, TORCH)
    for key in (key for key in keys if key in wanted):
        refused, read, write = _SETTINGS[key]
        refusal = refused(wanted[key])
        if refusal:
            patch.refuse(TORCH, key, refusal)
            continue
        if read() != wanted[key]:
            write(wanted[key])
        patch.applied(TORCH, [key])


def _changed_since(patch: JobPatch, key: str) -> Refusal | None:
    now = _SETTINGS[key][1]()
    return None if now == patch.values(TORCH)[key] else Refusal(Reason.SET_SINCE, str(now))


def _nothing(value: Any) -> None:
    return None


def _precision() -> Any:
    import torch

    return float32_matmul_precision(torch)


def _set_precision(value: Any) -> None:
    import torch

    torch.set_float32_matmul_precision(value)


def _benchmark() -> Any:
    import torch

    return torch.backends.cudnn.benchmark


def _set_benchmark(value: Any) -> None:
    import torch

    torch.backends.cudnn.benchmark = value


_SETTINGS: dict[str, tuple[Callable[[Any], Refusal | None], Callable[[], Any], Callable[[Any], None]]] = {
    "float32_matmul_precision": (_nothing, _precision, _set_precision),
    "cudnn_benchmark": (benchmark_refused, _benchmark, _set_benchmark),
}
