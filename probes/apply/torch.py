"""Patches of torch's own: its loaders, optimizers, settings, and DistributedDataParallel when it is made."""

from __future__ import annotations

from typing import Any

from ..guard import guarded
from . import loader, optimizer, settings
from .constructors import patched_init, values_for
from .job_patch import JobPatch, job_patch
from .of_torch import ddp_refused, ddp_takes


def install() -> None:
    """Patch what is made from now on; without a patch for it, change nothing."""
    if job_patch() is None:
        return
    guarded(loader.install, "the patch is not applied to DataLoader")
    guarded(optimizer.install, "the patch is not applied to optimizers")
    guarded(settings.install, "the patch is not applied to torch's settings")
    guarded(_install_ddp, "the patch is not applied to DistributedDataParallel")


def _install_ddp() -> None:
    import torch.distributed

    if torch.distributed.is_available():
        from torch.nn.parallel import DistributedDataParallel

        patched_init(DistributedDataParallel, "ddp", _for_ddp, spelled=_spelled)


def _for_ddp(patch: JobPatch, given: dict[str, Any]) -> dict[str, Any]:
    wanted = values_for(patch, "ddp")
    refusals = {key: ddp_refused(key) for key in wanted}
    for key, refusal in refusals.items():
        if refusal:
            patch.refuse("ddp", key, refusal)
    return {key: value for key, value in wanted.items() if not refusals[key]}


def _spelled(values: dict[str, Any]) -> dict[str, Any]:
    """The values by argument: where torch has `forward_sync_buffers`, that ends the broadcast before each forward pass,
    and rank 0's buffers are still copied once, as `broadcast_buffers=False` does not.
    """
    if values.get("broadcast_buffers") is not False or not ddp_takes("forward_sync_buffers"):
        return values
    return {**values, "broadcast_buffers": None, "forward_sync_buffers": False}
