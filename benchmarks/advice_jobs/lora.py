"""LoRA written by hand around a small transformer, with gradients accumulated over micro-batches."""

from __future__ import annotations

import torch
from timing import Samples, Steps, options, place
from torch import nn


class LowRank(nn.Module):
    """A frozen linear layer with a trained product of two thin matrices beside it."""

    def __init__(self, frozen: nn.Linear, rank: int = 8) -> None:
        super().__init__()
        self.frozen = frozen.requires_grad_(False)
        self.down = nn.Linear(frozen.in_features, rank, bias=False)
        self.up = nn.Linear(rank, frozen.out_features, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer and its low-rank part."""
        out: torch.Tensor = self.frozen(x) + self.up(self.down(x))
        return out


class Block(nn.Module):
    """Attention and a feed-forward part, all projections with a low-rank part."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = LowRank(nn.Linear(width, 3 * width)), LowRank(nn.Linear(width, width))
        self.up, self.down = LowRank(nn.Linear(width, 4 * width)), LowRank(nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One layer."""
        batch, length, width = x.shape
        heads = self.qkv(self.norm(x)).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        fed: torch.Tensor = x + self.down(nn.functional.gelu(self.up(self.after(x))))
        return fed


def main() -> None:
    """Train."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    set_up = options(batch=1, accumulate=8, width=64, layers=6, length=16, steps=50)
    embedding = nn.Embedding(512, set_up["width"]).requires_grad_(False).to(place())
    blocks = nn.Sequential(*(Block(set_up["width"]) for _ in range(set_up["layers"]))).to(place())
    head = nn.Linear(set_up["width"], 512).requires_grad_(False).to(place())
    trained = [weight for weight in blocks.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3, fused=True)
    tokens = torch.randint(0, 512, (8 * set_up["steps"], set_up["length"] + 1))
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(tokens), batch_size=set_up["batch"])
    steps, seen = Steps(), Samples()
    for number, (batch,) in enumerate(data, 1):
        ids = batch.to(place())
        seen.saw(ids)
        logits = head(blocks(embedding(ids[:, :-1])))
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        (loss / set_up["accumulate"]).backward()
        if number % set_up["accumulate"] == 0:
            optimizer.step()
            optimizer.zero_grad()
            steps.ended()
    steps.report()
    seen.report()


if __name__ == "__main__":
    main()
