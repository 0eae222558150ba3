"""DistributedDataParallel on two ranks: a search for unused parameters, small buckets, buffers that are broadcast,
uneven batches, many threads, metrics that are reduced one by one, as asked.

The ranks compute on the CPU and speak over gloo, whatever the machine has.
"""

from __future__ import annotations

import contextlib

import torch
from timing import Steps, options
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Model(nn.Module):
    """Linear layers, each with a normalisation where asked; `spare` is a parameter that gets no gradient."""

    def __init__(self, width: int, layers: int, normalises: bool, spare: bool) -> None:
        super().__init__()
        made = ((nn.Linear(width, width), *((nn.BatchNorm1d(width),) if normalises else ())) for _ in range(layers))
        self.layers = nn.Sequential(*(layer for each in made for layer in each))
        self.spare = nn.Parameter(torch.zeros(1)) if spare else None

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """The last layer's output."""
        done: torch.Tensor = self.layers(rows)
        return done


def rows_of(number: int, rows: int, uneven: bool) -> int:
    """Rows of this rank's batch: with `uneven` the ranks take turns in having three times as many as the other."""
    fuller = number % 2 == torch.distributed.get_rank()
    return rows if not uneven else rows * 3 // 2 if fuller else rows // 2


def main() -> None:
    """Train."""
    set_up = options(
        searches=False, spare=False, static=False, bucket_mb=25.0, threads=1, accumulate=1, reduces_each=True,
        normalises=False, broadcasts=True, uneven=False, metrics=0, width=64, layers=60, rows=16, steps=60,
    )  # fmt: skip
    torch.set_num_threads(set_up["threads"])
    torch.distributed.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(
        Model(set_up["width"], set_up["layers"], set_up["normalises"], set_up["spare"]),
        find_unused_parameters=set_up["searches"], static_graph=set_up["static"],
        bucket_cap_mb=set_up["bucket_mb"], broadcast_buffers=set_up["broadcasts"],
    )  # fmt: skip
    optimizer, steps = torch.optim.AdamW(model.parameters(), fused=True), Steps()
    seen: dict[int, float] = {}
    for number in range(set_up["steps"]):
        for micro in range(set_up["accumulate"]):
            reduces = set_up["reduces_each"] or micro + 1 == set_up["accumulate"]
            with contextlib.nullcontext() if reduces else model.no_sync():
                rows = torch.randn(rows_of(number, set_up["rows"], set_up["uneven"]), set_up["width"])
                model(rows).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        for metric in range(set_up["metrics"]):
            sum_of_ranks = torch.tensor(float(metric))
            torch.distributed.all_reduce(sum_of_ranks)
            seen[metric] = sum_of_ranks.item()
        steps.ended()
    steps.report()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
