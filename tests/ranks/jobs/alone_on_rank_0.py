"""Train with DDP over gloo while rank 0 alone evaluates or saves, and the others wait for it at the next all-reduce."""

import sys

import torch
from torch import distributed as dist
from torch import nn

KIND, EVERY = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(1)
dist.init_process_group("gloo")
RANK = dist.get_rank()
SIZE = 512
net = nn.Sequential(nn.Linear(SIZE, SIZE), nn.ReLU(), nn.Linear(SIZE, SIZE), nn.ReLU(), nn.Linear(SIZE, 10))
model = nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
held_out = torch.randn(32, 64, SIZE)


def evaluate() -> float:
    net.eval()
    with torch.no_grad():
        total = sum(net(batch).square().mean().item() for batch in held_out)
    net.train()
    return total


def save() -> None:
    torch.save({"model": net.state_dict(), "more": torch.zeros(4_000_000)}, "checkpoint.pt")


for step in range(90):
    model(torch.randn(64, SIZE)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if RANK == 0 and step % EVERY == 0:
        {"evaluate": evaluate, "save": save}[KIND]()
dist.destroy_process_group()
