"""Twelve backward passes for a step of the optimizer; `later` makes the optimizer after seven of them."""

import sys

import torch

torch.manual_seed(0)
model = torch.nn.Linear(64, 64)
optimizer = None if "later" in sys.argv else torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(12 * 30):
    model(torch.ones(8, 64)).sum().backward()
    if number == 7 and optimizer is None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if number % 12 == 11:
        optimizer.step()
        optimizer.zero_grad()
