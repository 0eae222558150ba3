"""A small loop whose Python is slowed: `collect` asks for the collector in each step, `follow` traces allocations."""

import gc
import sys
import tracemalloc

import torch

torch.set_num_threads(1)
kept = [{"number": number, "list": [number]} for number in range(100_000)]
if "follow" in sys.argv:
    tracemalloc.start(25)
model = torch.nn.Sequential(*(torch.nn.Linear(32, 32) for _ in range(24)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(60):
    model(torch.randn(16, 32)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if "collect" in sys.argv:
        gc.collect()
