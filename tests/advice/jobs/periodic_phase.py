# A loop as of reinforcement learning: 16 cheap optimizer steps, then one phase of Python and inference that takes most.
import sys
import time

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
net = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
phase = update = 0.0


def rollout():
    x, rows = torch.randn(4, 4), []
    with torch.no_grad():
        for _ in range(256):
            rows.append(x)
            x = torch.tanh(x + net(x).sum() * 0.01 + 0 * sum(i * i for i in range(400)))
    return torch.cat(rows)


for _ in range(60):
    begin = time.perf_counter()
    data = rollout()
    phase += time.perf_counter() - begin
    begin = time.perf_counter()
    for chunk in data.chunk(16):
        opt.zero_grad()
        loss = net(chunk).pow(2).mean()
        loss.backward()
        opt.step()
    update += time.perf_counter() - begin
print(f"rollout {phase:.2f} s, updates {update:.2f} s", file=sys.stderr)
