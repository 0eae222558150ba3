"""DistributedDataParallel on two ranks: a search for unused parameters, small buckets, many threads, as asked.

The ranks compute on the CPU and speak over gloo, whatever the machine has.
"""

from __future__ import annotations

import contextlib

import torch
from timing import Steps, options
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    """Train."""
    set_up = options(
        searches=False, bucket_mb=25.0, threads=1, accumulate=1, reduces_each=True, width=64, layers=60, rows=16,
        steps=60,
    )  # fmt: skip
    torch.set_num_threads(set_up["threads"])
    torch.distributed.init_process_group("gloo")
    torch.manual_seed(0)
    layers = (nn.Linear(set_up["width"], set_up["width"]) for _ in range(set_up["layers"]))
    model = DistributedDataParallel(
        nn.Sequential(*layers), find_unused_parameters=set_up["searches"], bucket_cap_mb=set_up["bucket_mb"]
    )
    optimizer, steps = torch.optim.AdamW(model.parameters(), fused=True), Steps()
    for _ in range(set_up["steps"]):
        for number in range(set_up["accumulate"]):
            reduces = set_up["reduces_each"] or number + 1 == set_up["accumulate"]
            with contextlib.nullcontext() if reduces else model.no_sync():
                model(torch.randn(set_up["rows"], set_up["width"])).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        steps.ended()
    steps.report()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
