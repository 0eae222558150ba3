"""Train a small model with DDP over gloo; under srun without torchrun too. The argument is the number of steps."""

import os
import sys

import torch
from torch import distributed as dist
from torch import nn

STEPS = int(sys.argv[1]) if sys.argv[1:] else 40
for name, of_slurm in {"RANK": "SLURM_PROCID", "WORLD_SIZE": "SLURM_NTASKS"}.items():
    os.environ.setdefault(name, os.environ.get(of_slurm, "0"))
os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(STEPS):
    model(torch.randn(64, 256)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
