"""A transformer whose batches are padded to their longest sample: compiled for each, in half or double precision."""

from __future__ import annotations

import random
from typing import Any

import torch
from timing import Samples, Steps, options
from torch import nn


class Model(nn.Module):
    """Two layers over an embedding."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embedding, self.out = nn.Embedding(256, width), nn.Linear(width, 256)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, batch_first=True, dropout=0.0)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Logits of each token."""
        logits: torch.Tensor = self.out(self.layers(self.embedding(ids)))
        return logits


def collate(batch: list[torch.Tensor]) -> torch.Tensor:
    """Pad to the longest of the batch."""
    return nn.utils.rnn.pad_sequence(batch, batch_first=True)


def main() -> None:
    """Train."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    set_up = options(compiles=True, dynamic=False, autocast="", double=False, width=64, steps=24)
    torch._dynamo.config.recompile_limit = 64
    drawn, model = random.Random(0), Model(set_up["width"]).to(torch.float64 if set_up["double"] else torch.float32)
    data: Any = [torch.randint(1, 256, (drawn.randrange(16, 96),)) for _ in range(4 * set_up["steps"])]
    optimizer, steps, seen = (
        torch.optim.AdamW(model.parameters(), fused=True),
        Steps(whole=set_up["compiles"]),
        Samples(),
    )
    compiled = torch.compile(model, backend="aot_eager", dynamic=set_up["dynamic"]) if set_up["compiles"] else model
    dtype = torch.float16 if set_up["autocast"] == "fp16" else torch.bfloat16
    for ids in torch.utils.data.DataLoader(data, batch_size=4, collate_fn=collate):
        seen.saw(ids, ids != 0)
        with torch.autocast("cpu", dtype=dtype, enabled=bool(set_up["autocast"])):
            logits = compiled(ids)
        logits = logits if set_up["double"] else logits.float()
        nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
        steps.ended()
    steps.report()
    seen.report()


if __name__ == "__main__":
    main()
