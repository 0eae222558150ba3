"""A job of several ranks over gloo: rank 0 prints the loss, and writes how the flight recorder is set into a file."""

import json
import os

import torch
import torch.distributed as dist

torch.manual_seed(0)
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(20):
    loss = model(torch.ones(8, 64)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
if dist.get_rank() == 0:
    with open("recorder.json", "w") as file:
        json.dump({name: value for name, value in os.environ.items() if name.startswith("TORCH_FR_")}, file)
    print(f"loss {loss.item():.6f}")
store = dist.distributed_c10d._get_default_store()  # of the launcher: gloo may abort a rank whose peer is already gone
store.set(f"done{dist.get_rank()}", "")
store.wait(["done0", "done1"])
dist.destroy_process_group()
