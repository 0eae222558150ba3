# RL-shaped bare loop: 16 cheap optimizer steps, then one phase of Python and inference that takes most of the time.
import sys, time, torch, torch.nn as nn

torch.manual_seed(0)
torch.set_num_threads(1)
net = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
phase = update = 0.0


def rollout():
    x = torch.randn(4, 4)
    rows = []
    with torch.no_grad():
        for _ in range(256):
            rows.append(x)
            x = torch.tanh(x + net(x).sum() * 0.01)
            s = sum(i * i for i in range(400))
    return torch.cat(rows)


for it in range(60):
    t = time.perf_counter()
    data = rollout()
    phase += time.perf_counter() - t
    t = time.perf_counter()
    for chunk in data.chunk(16):
        opt.zero_grad()
        loss = net(chunk).pow(2).mean()
        loss.backward()
        opt.step()
    update += time.perf_counter() - t
print(f"rollout {phase:.2f} s, updates {update:.2f} s", file=sys.stderr)
