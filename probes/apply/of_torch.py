"""Changes of a patch that torch rules out: settings of the process, optimizers, DistributedDataParallel."""

from __future__ import annotations

import sys
from inspect import signature
from types import FunctionType
from typing import Any

from ..introspection import is_a
from .device import gpu_is_there
from .reasons import Reason, Refusal


def benchmark_refused(value: Any) -> Refusal | None:
    """Why cuDNN is not to search for the fastest convolutions, or would not; None if it can."""
    torch: Any = sys.modules["torch"]
    if value and (torch.are_deterministic_algorithms_enabled() or torch.backends.cudnn.deterministic):
        return Refusal(Reason.DETERMINISTIC)
    return None if gpu_is_there() else Refusal(Reason.NO_CUDNN)


def knows_gpus() -> bool:
    """Whether `gpu_is_there` can answer without the driver, which must be left alone in a process that forks later."""
    torch: Any = sys.modules["torch"]
    return bool(torch.cuda.is_initialized() or not hasattr(torch._C, "_cuda_getDeviceCount"))


def form_refused(optimizer: Any, key: str) -> Refusal | None:
    """Why the optimizer cannot be made with `key`; None if its class has such an argument."""
    return None if takes(type(optimizer), key) else Refusal(Reason.NO_FORM, type(optimizer).__name__)


def ddp_refused(key: str) -> Refusal | None:
    """Why DistributedDataParallel cannot be made with `key`; None if it has such an argument."""
    return None if ddp_takes(key) else Refusal(Reason.NO_ARGUMENT, "torch")


def ddp_takes(key: str) -> bool:
    """Whether DistributedDataParallel has an argument of that name."""
    return takes(sys.modules["torch.nn.parallel"].DistributedDataParallel, key)


def takes(kind: type, key: str) -> bool:
    """Whether the constructor, or one that it may call, has an argument of that name."""
    inits: list[Any] = [vars(each).get("__init__") for each in type.mro(kind)]
    return any(key in signature(init).parameters for init in inits if is_a(init, FunctionType))
