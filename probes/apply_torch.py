"""Patches of torch's own: the arguments of DataLoader and DistributedDataParallel when they are made."""

from __future__ import annotations

from typing import Any

from .apply import holds_device_tensors, patched_init, values_for, workers_refused
from .guard import guarded
from .job_patch import JobPatch, job_patch

_ORDER = ("num_workers", "persistent_workers", "prefetch_factor", "pin_memory")


def install() -> None:
    """Patch what is made from now on; without a patch for it, change nothing."""
    if job_patch() is not None:
        guarded(_install, "the patch is not applied to torch")


def _install() -> None:
    from torch.utils.data import DataLoader

    patched_init(DataLoader, "dataloader", _for_loader)
    import torch.distributed

    if torch.distributed.is_available():
        from torch.nn.parallel import DistributedDataParallel

        patched_init(DistributedDataParallel, "ddp", _for_ddp)


def _for_loader(patch: JobPatch, given: dict[str, Any]) -> dict[str, Any]:
    wanted = values_for(patch, "dataloader")
    chosen: dict[str, Any] = {}
    for key in (key for key in _ORDER if key in wanted):
        because = _loader_refuses(key, wanted[key], {**given, **chosen}, given)
        if because:
            patch.refuse("dataloader", key, because)
        else:
            chosen[key] = wanted[key]
    return chosen


def _loader_refuses(key: str, value: Any, now: dict[str, Any], given: dict[str, Any]) -> str:
    if key == "pin_memory":
        return _pinning_refused(now["dataset"]) if value else ""
    if key == "num_workers" and value == 0:
        return "the job's persistent_workers or prefetch_factor need workers" if _needs_workers(given) else ""
    if key == "num_workers":
        return workers_refused(now["dataset"], now["num_workers"])
    return "it needs num_workers above 0" if value and not now["num_workers"] else ""


def _needs_workers(given: dict[str, Any]) -> bool:
    return bool(given.get("persistent_workers")) or given.get("prefetch_factor") is not None


def _pinning_refused(dataset: Any) -> str:
    import torch

    if holds_device_tensors(dataset):
        return "the dataset holds tensors of a device"
    has_gpu = torch.cuda.is_initialized() or torch.cuda.device_count() > 0  # leaves CUDA unstarted: workers may fork
    return "" if has_gpu else "there is no GPU to pin for"


def _for_ddp(patch: JobPatch, given: dict[str, Any]) -> dict[str, Any]:
    wanted = values_for(patch, "ddp")
    for key in [key for key in wanted if key not in given]:
        patch.refuse("ddp", key, "this torch has no such argument")
    return {key: value for key, value in wanted.items() if key in given}
