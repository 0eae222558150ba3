"""Two ranks of DDP over one dataset; with `shared`, each has a part of it."""

import sys

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo")
torch.manual_seed(0)
data = TensorDataset(torch.randn(480, 16), torch.randint(0, 4, (480,)))
loader = DataLoader(data, 8, sampler=DistributedSampler(data)) if "shared" in sys.argv else DataLoader(data, 8, shuffle=True)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    for rows, labels in loader:
        torch.nn.functional.cross_entropy(model(rows), labels).backward()
        optimizer.step()
        optimizer.zero_grad()
dist.destroy_process_group()
