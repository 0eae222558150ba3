"""Ranges around what accelerate does for a training loop, with or without a Trainer."""

from __future__ import annotations

import sys
from typing import Any

from ..hand_over import replace
from ..recording import ranges
from ..recording.ranges import within, wrap_method

METHODS = {
    "backward": ranges.BACKWARD,
    "clip_grad_norm_": ranges.CLIP,
    "clip_grad_value_": ranges.CLIP,
}


def wrap_accelerate() -> None:
    """Put accelerate's backward, clipping, optimizer step and copies to the device inside ranges, if it is imported."""
    accelerator: Any = sys.modules.get("accelerate.accelerator")
    optimizer: Any = sys.modules.get("accelerate.optimizer")
    loader: Any = sys.modules.get("accelerate.data_loader")
    if accelerator is not None:
        for method, name in METHODS.items():
            wrap_method(accelerator.Accelerator, method, name)
    if optimizer is not None:
        wrap_method(optimizer.AcceleratedOptimizer, "step", ranges.OPTIMIZER)
    if loader is not None:
        replace(loader, "send_to_device", within(ranges.TO_DEVICE), "copies to the device are in no range")
