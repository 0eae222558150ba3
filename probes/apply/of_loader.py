"""Changes of a patch that a DataLoader rules out, by reading it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..introspection import attributes
from . import loader_order
from .device import gpu_is_there
from .reasons import Reason, Refusal
from .samples import holds_device_tensors, is_iterable, open_file, workers_refused

TARGET = "dataloader"
ORDER = ("num_workers", "persistent_workers", "prefetch_factor", "pin_memory")  # workers come before what needs them


def held_by(loader: Any) -> dict[str, Any]:
    """The arguments that a DataLoader was made with, as it holds them."""
    return dict.fromkeys(("generator", "sampler", "batch_sampler", "worker_init_fn", *ORDER)) | attributes(loader)


def refused(key: str, value: Any, now: Mapping[str, Any], given: Mapping[str, Any]) -> Refusal | None:
    """Why a loader cannot take the value; None when it can.

    Args:
        key, value: of the patch.
        now: its arguments, with the values of the patch that it takes so far.
        given: its arguments without the patch.
    """
    if key == "pin_memory":
        return pinning_refused(now["dataset"]) if value else None
    if value == given[key]:
        return None
    if key == "num_workers" and not value:
        return _needed(given) or moving_refused(given)
    if key == "num_workers":
        refusal = workers_refused(now["dataset"], now["num_workers"], given.get("worker_init_fn"))
        return refusal or moving_refused(given)
    if value and not now["num_workers"]:
        return Refusal(Reason.NEEDS_WORKERS, "num_workers", unless_set="num_workers")
    if key == "persistent_workers":
        return _persistence_refused(value, now)
    return _drawing_sampler(given)


def moving_refused(given: Mapping[str, Any]) -> Refusal | None:
    """Why samples cannot be fetched in another process than now; None if they can."""
    return open_file(given["dataset"]) or _drawing_sampler(given)


def pinning_refused(dataset: Any) -> Refusal | None:
    """Why batches of the dataset cannot be pinned; None when they can."""
    if holds_device_tensors(dataset):
        return Refusal(Reason.PINS_A_DEVICE)
    return None if gpu_is_there() else Refusal(Reason.NOTHING_TO_PIN_FOR)


def _needed(given: Mapping[str, Any]) -> Refusal | None:
    needs_workers = given.get("persistent_workers") or given.get("prefetch_factor") is not None
    return Refusal(Reason.WORKERS_STAY, "persistent_workers or prefetch_factor") if needs_workers else None


def _drawing_sampler(given: Mapping[str, Any]) -> Refusal | None:
    name = loader_order.draws_as_it_goes(given)
    return Refusal(Reason.SAMPLER_DRAWS, name) if name else None


def _persistence_refused(value: Any, now: Mapping[str, Any]) -> Refusal | None:
    if not value:
        return Refusal(Reason.LATER_PASSES)
    return Refusal(Reason.STREAM_GOES_ON) if is_iterable(now["dataset"]) else None
