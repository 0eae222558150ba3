"""A loop that updates its parameters itself, p.data.add_(p.grad), as pytorch/examples/word_language_model does."""

import sys

import torch

torch.manual_seed(0)
passes = int(sys.argv[1])
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
for _ in range(passes):
    model.zero_grad()
    torch.nn.functional.cross_entropy(model(torch.randn(64, 256)), torch.randint(8, (64,))).backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.data.add_(parameter.grad, alpha=-0.1)
    if "--crash" in sys.argv:
        raise SystemExit(1)
print(sum(parameter.sum().item() for parameter in model.parameters()))
