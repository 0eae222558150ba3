"""Train with DDP over gloo a model whose buffer rank 0 alone has filled; prints the buffer of each rank."""

import torch
from torch import distributed as dist
from torch import nn

torch.set_num_threads(1)
dist.init_process_group("gloo")
model = nn.Sequential(nn.Linear(16, 16))
model.register_buffer("filled", torch.full((4,), 7.0 if dist.get_rank() == 0 else 0.0))
wrapped = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.01)
for _ in range(12):
    wrapped(torch.randn(8, 16)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print(f"rank {dist.get_rank()} has {model.filled.sum().item()}", flush=True)
dist.destroy_process_group()
