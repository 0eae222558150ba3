# Trainer-free: autocast to fp16, bf16 or none (fp32), by the argument, on a CPU.
import sys

import torch
from torch import nn

kind = sys.argv[1]
torch.manual_seed(0)
torch.set_num_threads(1)
layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True, dropout=0.0)
net = nn.Sequential(nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), nn.Linear(128, 8))
optimizer = torch.optim.AdamW(net.parameters(), fused=True)
for _ in range(60):
    x = torch.randn(16, 64, 128)
    with torch.autocast("cpu", dtype=torch.float16 if kind == "fp16" else torch.bfloat16, enabled=kind != "fp32"):
        loss = net(x).float().pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
