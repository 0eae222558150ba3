"""Forward passes on the CPU, of models that are in training mode and of models that are not."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from profiled_jobs import trace_each
from torch import nn

Step = Callable[[], object]
CLASSES = 10


def model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Dropout(0.1), nn.Flatten(), nn.LazyLinear(CLASSES)
    )


def forward(training: bool, mode: Callable[[], AbstractContextManager[object]], of: Callable[[], nn.Module]) -> Step:
    net, x = of().train(training), torch.randn(8, 3, 32, 32)

    def step() -> None:
        with mode():
            net(x)

    return step


def trains() -> Step:
    net, x = model(), torch.randn(8, 3, 32, 32)
    net(x)
    optimizer = torch.optim.AdamW(net.parameters())

    def step() -> None:
        net(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def norm_alone() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16))


def norm_without_statistics() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16, track_running_stats=False), nn.Dropout(0.0))


class Attention(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = x.flatten(2).unsqueeze(1)
        p = 0.1 if self.training else 0.0
        return nn.functional.scaled_dot_product_attention(heads, heads, heads, dropout_p=p)


JOBS: dict[str, Callable[[], Step]] = {
    "train-no-grad": lambda: forward(True, torch.no_grad, model),
    "train-inference": lambda: forward(True, torch.inference_mode, model),
    "train-with-grad": lambda: forward(True, torch.enable_grad, model),
    "eval-no-grad": lambda: forward(False, torch.no_grad, model),
    "eval-inference": lambda: forward(False, torch.inference_mode, model),
    "eval-with-grad": lambda: forward(False, torch.enable_grad, model),
    "norm": lambda: forward(True, torch.no_grad, norm_alone),
    "norm-without-statistics": lambda: forward(True, torch.no_grad, norm_without_statistics),
    "attention": lambda: forward(True, torch.no_grad, Attention),
    "attention-eval": lambda: forward(False, torch.no_grad, Attention),
    "trains": trains,
}

if __name__ == "__main__":
    trace_each(JOBS)
