"""A bare loop in which a small model learns from a larger one, which computes gradients or does not."""

from __future__ import annotations

import torch
from timing import Samples, Steps, options, place
from torch import nn


def layers(width: int, depth: int, features: int) -> nn.Module:
    """Linear layers from `features` back to `features`."""
    inner = [part for _ in range(depth) for part in (nn.Linear(width, width), nn.GELU())]
    return nn.Sequential(nn.Linear(features, width), nn.GELU(), *inner, nn.Linear(width, features)).to(place())


def main() -> None:
    """Train."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    set_up = options(gradients=False, width=256, batch=256, steps=40)
    width = set_up["width"]
    teacher, student = layers(3 * width, 3, width), layers(width, 2, width)
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-3, fused=True)
    steps, seen = Steps(), Samples()
    for _ in range(set_up["steps"]):
        batch = torch.randn(set_up["batch"], width)
        seen.saw(batch)
        with torch.set_grad_enabled(set_up["gradients"]):
            wanted = teacher(batch.to(place()))
        nn.functional.mse_loss(student(batch.to(place())), wanted).backward()
        optimizer.step()
        optimizer.zero_grad()
        steps.ended()
    steps.report()
    seen.report()


if __name__ == "__main__":
    main()
