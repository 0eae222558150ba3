"""A bare loop whose dataset sleeps, as on a slow disk, or computes, as when it decodes; under torchrun with DDP."""

from __future__ import annotations

import os
import time
from typing import Any

import torch
from timing import Steps, options, place
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Samples(torch.utils.data.Dataset[Any]):
    """Each sample sleeps or computes for some milliseconds."""

    def __init__(self, count: int, sleep_ms: float, compute_ms: float) -> None:
        self._count, self._sleep_s, self._compute_s = count, sleep_ms / 1e3, compute_ms / 1e3

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: int) -> torch.Tensor:
        time.sleep(self._sleep_s)
        until = time.process_time() + self._compute_s
        while time.process_time() < until:
            pass
        return torch.full((256,), float(at % 7))


def main() -> None:
    """Train."""
    torch.set_num_threads(1)
    set_up = options(sleep_ms=4.0, compute_ms=0.0, workers=0, host_ms=0.0, steps=50)
    rank = int(os.environ.get("RANK", "0"))
    there = "cpu" if "RANK" in os.environ else place()  # ranks share what there is, over gloo
    model: nn.Module = nn.Sequential(*(nn.Linear(256, 256) for _ in range(6))).to(there)
    if "RANK" in os.environ:
        torch.distributed.init_process_group("gloo")
        model = DistributedDataParallel(model)
    data = Samples(8 * set_up["steps"], set_up["sleep_ms"], set_up["compute_ms"])
    loader = torch.utils.data.DataLoader(data, batch_size=8, num_workers=set_up["workers"])
    optimizer, steps = torch.optim.AdamW(model.parameters()), Steps()
    for batch in loader:
        model(batch.to(there).repeat(16, 1)).square().mean().backward()
        if rank == 1:
            until = time.perf_counter() + set_up["host_ms"] / 1e3
            while time.perf_counter() < until:
                sorted(range(100), key=lambda number: -number)
        optimizer.step()
        optimizer.zero_grad()
        steps.ended()
    steps.report()
    if "RANK" in os.environ:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
