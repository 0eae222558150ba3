"""A job that trains until the file that its argument names is there."""

import sys
import time
from pathlib import Path

import torch

torch.set_num_threads(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if Path(sys.argv[1]).exists():
        break
    time.sleep(0.01)  # the machine has other work
print("enough")
sys.exit(4)
