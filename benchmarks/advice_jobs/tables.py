"""A recommender's bare loop: large embedding tables of which a step uses few rows, with dense or sparse gradients."""

from __future__ import annotations

import torch
from timing import Samples, Steps, options
from torch import nn


def main() -> None:
    """Train."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    set_up = options(sparse=False, rows=100_000, tables=4, width=32, batch=256, steps=40)
    count = set_up["tables"]
    bags = nn.ModuleList(
        nn.EmbeddingBag(set_up["rows"], set_up["width"], sparse=set_up["sparse"]) for _ in range(count)
    )
    top = nn.Sequential(nn.Linear(count * set_up["width"], 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.Adagrad([*bags.parameters(), *top.parameters()], lr=1e-2)
    steps, seen = Steps(), Samples()
    for _ in range(set_up["steps"]):
        ids = torch.randint(0, set_up["rows"], (set_up["batch"], count))
        seen.saw(ids)
        looked_up = [bag(ids[:, at : at + 1]) for at, bag in enumerate(bags)]
        top(torch.cat(looked_up, dim=1)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        steps.ended()
    steps.report()
    seen.report()


if __name__ == "__main__":
    main()
