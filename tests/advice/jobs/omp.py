# torchtitan#4038 / pytorch#22260: several processes on a host, each with a pool of threads for all cores
import os
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
torch.set_num_threads(int(os.environ.get("T", "16")))
model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(6)])
ddp = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(ddp.parameters())
began = time.time()
for step in range(60):
    loss = ddp(torch.randn(256, 512)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if rank == 0 and step % 10 == 9:
        print(f"step {step} {(time.time() - began) * 100:.0f} ms/step", flush=True)
        began = time.time()
dist.destroy_process_group()
