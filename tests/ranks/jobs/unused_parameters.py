"""Train with DDP over gloo, which searches for unused parameters.

"unused" has a layer that no step uses, "accumulates" gradients of two batches without reducing those of the first, and
"static" says that the graph never changes.
"""

import contextlib
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
STATIC, BATCHES = "static" in sys.argv, 2 if "accumulates" in sys.argv else 1
model = nn.parallel.DistributedDataParallel(Model(), find_unused_parameters=True, static_graph=STATIC)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(40):
    for batch in range(1, BATCHES + 1):
        with model.no_sync() if batch < BATCHES else contextlib.nullcontext():
            model(torch.randn(64, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
