"""Pinning batches, and copying them to the GPU, as the job's loader has it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .contents import bytes_of, tensors_in

NO_GPU = "this process sees no CUDA device"


def to_device(batch: Any, samples: int, pinned: bool, seconds: float) -> dict[str, Any]:
    """The answer's `pin` and `copy` for a batch of so many samples, from `pinned` memory or as it is."""
    import torch

    if not torch.cuda.is_available():
        return {"pin": {"because": NO_GPU}, "copy": {"because": NO_GPU}}
    try:
        return _measured(
            torch, [each for each in tensors_in(batch) if each.device.type == "cpu"], samples, pinned, seconds
        )
    except Exception as error:
        because = f"{type(error).__name__}: {error}"[:300]
        return {"pin": {"because": because}, "copy": {"because": because}}


def _measured(torch: Any, tensors: list[Any], samples: int, pinned: bool, seconds: float) -> dict[str, Any]:
    if not tensors:
        return {name: {"because": "a batch has no tensors in host memory"} for name in ("pin", "copy")}
    size = sum(bytes_of(tensor) or 0 for tensor in tensors)
    source = [tensor.pin_memory() for tensor in tensors] if pinned else tensors

    def copied() -> None:
        for tensor in source:
            tensor.to("cuda", non_blocking=True)
        torch.cuda.synchronize()

    pin = _timed(lambda: [tensor.pin_memory() for tensor in tensors], samples, size, seconds / 2)
    return {"pin": pin, "copy": _timed(copied, samples, size, seconds / 2) | {"pinned": pinned}}


def _timed(call: Callable[[], object], samples: int, size: int, seconds: float) -> dict[str, Any]:
    """Time `call` again and again, without the first time."""
    call()
    began, times = time.perf_counter_ns(), 0
    while not times or time.perf_counter_ns() - began < seconds * 1e9:
        call()
        times += 1
    return {"samples": times * samples, "bytes": times * size, "wall_ns": time.perf_counter_ns() - began}
