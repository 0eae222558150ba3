"""Ranges around what a job does before its first step; they are timed until then, and in no trace."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from ..current_session import session
from ..guard import quietly
from ..hand_over import left_as_it_is, replace, replace_classmethod, replace_everywhere
from ..protocol import (
    BARRIER_RANGE,
    CHECKPOINT_RANGE,
    LOAD_DATA_RANGE,
    LOAD_MODEL_RANGE,
    MAP_RANGE,
    PROCESS_GROUP_RANGE,
)
from ..recording.range_times import Timed, times
from ..recording.run_time import run_time

_OUTERMOST = (LOAD_MODEL_RANGE, LOAD_DATA_RANGE, MAP_RANGE, CHECKPOINT_RANGE, PROCESS_GROUP_RANGE, BARRIER_RANGE)
_DOING = "the start of the job is not timed"
_OLDER_S = 1.0  # some file systems keep times by the second


def install() -> None:
    """Time what the modules do that the job has imported so far; without a session, do nothing."""
    if session() is not None:
        for watch in (_watch_torch, _watch_transformers, _watch_datasets, _watch_accelerate):
            quietly(watch)


def _within(name: str) -> Callable[..., Any]:
    """A wrapper that runs a call inside a range before the first step, unless it is a part of another such call."""

    def called(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        if not _is_outermost():
            return function(*args, **kwargs)
        with Timed(name):
            return function(*args, **kwargs)

    return called


def reads_checkpoints(kind: type, methods: Iterable[str]) -> None:
    """Time methods of a trainer that read a checkpoint."""
    for method in methods:
        replace(kind, method, _within(CHECKPOINT_RANGE), _DOING)


def _is_outermost() -> bool:
    return run_time.is_before and not any(map(times.is_open, _OUTERMOST))


def _watch_torch() -> None:
    torch = sys.modules["torch"]
    replace_everywhere(sys.modules["torch.serialization"], "load", _within(CHECKPOINT_RANGE), _DOING, [torch])
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    if c10d is not None:
        for name, timed in (("init_process_group", PROCESS_GROUP_RANGE), ("barrier", BARRIER_RANGE)):
            around = _within(timed)
            replace_everywhere(c10d, name, around, _DOING, [torch.distributed])
            quietly(partial(left_as_it_is, getattr(c10d, name), around))


def _watch_transformers() -> None:
    models = sys.modules.get("transformers.modeling_utils")
    kind = getattr(models, "PreTrainedModel", None)
    if kind is not None:
        replace_classmethod(kind, "from_pretrained", _within(LOAD_MODEL_RANGE), _DOING, "__diagnose_start__")


def _watch_accelerate() -> None:
    kind = getattr(sys.modules.get("accelerate.accelerator"), "Accelerator", None)
    if kind is not None:
        reads_checkpoints(kind, ["load_state"])


def _watch_datasets() -> None:
    arrow, load = (sys.modules.get(f"datasets.{name}") for name in ("arrow_dataset", "load"))
    if arrow is not None and load is not None:
        replace(arrow.Dataset, "map", _mapping, _DOING)
        replace_everywhere(load, "load_dataset", _within(LOAD_DATA_RANGE), _DOING, [sys.modules["datasets"]])


def _mapping(original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    if not _is_outermost():
        return original(*args, **kwargs)
    began = time.time()
    with Timed(MAP_RANGE):
        result = original(*args, **kwargs)
    quietly(lambda: _note_map(result, began, kwargs.get("num_proc") or 1))
    return result


_longest_s = 0.0  # of the calls that were computed


def _note_map(result: Any, began: float, processes: int) -> None:
    """Count a call, which was computed if its files are new, or if it has none."""
    global _longest_s
    took_s, files = time.time() - began, [each["filename"] for each in result.cache_files]
    computed = not files or any(os.path.getmtime(file) > began - _OLDER_S for file in files)
    maps: dict[str, Any] = run_time.maps or {"calls": 0, "computed": 0, "in_memory": 0, "processes": None}
    run_time.maps = maps
    for name, so in (("calls", True), ("computed", computed), ("in_memory", not files)):
        maps[name] += so
    if computed and took_s > _longest_s:
        _longest_s, maps["processes"] = took_s, processes
