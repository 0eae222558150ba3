"""Train with DDP over gloo, which searches for unused parameters; "unused" has a layer that no step uses."""

import sys

import torch
from torch import distributed as dist
from torch import nn


class Model(nn.Module):
    """Two layers and a buffer; `spare` gets no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.Linear(64, 8))
        self.spare = nn.Linear(16, 16, bias=False) if "unused" in sys.argv else None

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """The last layer's output."""
        done: torch.Tensor = self.layers(rows)
        return done


torch.set_num_threads(1)
dist.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(Model(), find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(40):
    model(torch.randn(64, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
