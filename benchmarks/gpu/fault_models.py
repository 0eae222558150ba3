"""The models of the loops with faults: a transformer, a residual network, and many small layers."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    """A transformer's block; `eager` attention writes all scores to memory."""

    def __init__(self, o: dict[str, Any]) -> None:
        super().__init__()
        self.o, width = o, o["width"]
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block, with what its faults do at its end."""
        x = x + self.attended(self.n1(x))
        x = x + self.down(F.gelu(self.up(self.n2(x))))
        if self.o["item"]:
            x.float().mean().item()
        if self.o["breaks"]:
            torch._dynamo.graph_break()
        return x

    def attended(self, x: torch.Tensor) -> torch.Tensor:
        """Attention over earlier tokens."""
        b, t, w = x.shape
        q, k, v = (each.view(b, t, self.o["heads"], -1).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        if self.o["attention"] == "eager":
            scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
            mask = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
            y = scores.masked_fill(~mask, float("-inf")).softmax(-1, dtype=torch.float32).to(q.dtype) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, w))


class Gpt(nn.Module):
    """Blocks between an embedding and a head, with the loss."""

    def __init__(self, o: dict[str, Any]) -> None:
        super().__init__()
        self.o = o
        self.embed, self.norm = nn.Embedding(o["vocab"], o["width"]), nn.LayerNorm(o["width"])
        self.blocks = nn.ModuleList(Block(o) for _ in range(o["layers"]))
        self.head = nn.Linear(o["width"], o["vocab"], bias=False)

    def forward(self, ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The loss."""
        x = self.embed(ids)
        for block in self.blocks:
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) if self.o["recompute"] else block(x)
        x = self.norm(x).flatten(0, 1)
        if self.o["fused_loss"]:
            from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss

            return LigerFusedLinearCrossEntropyLoss()(self.head.weight, x, labels.flatten())
        return F.cross_entropy(self.head(x).float(), labels.flatten())


class Conv(nn.Module):
    """Convolutions with norms, as a residual network has."""

    def __init__(self, o: dict[str, Any]) -> None:
        super().__init__()
        w = o["width"]
        self.first = nn.Conv2d(3, w, 3, padding=1)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Conv2d(w, w, 3, padding=1, bias=False), nn.BatchNorm2d(w), nn.ReLU())
            for _ in range(o["layers"])
        )
        self.head = nn.Linear(w, 100)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The loss."""
        x = self.first(x)
        for layer in self.layers:
            x = x + layer(x)
        return F.cross_entropy(self.head(x.mean((2, 3))).float(), labels)


class Small(nn.Module):
    """Many kernels that take less than their launch."""

    def __init__(self, o: dict[str, Any]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(o["width"], o["width"]) for _ in range(o["layers"]))

    def forward(self, x: torch.Tensor, _labels: torch.Tensor) -> torch.Tensor:
        """The loss."""
        for layer in self.layers:
            x = torch.tanh(layer(x)) * 0.9 + x * 0.1
        return x.float().square().mean()


MODELS = {"gpt": Gpt, "conv": Conv, "small": Small}
