"""A bare loop whose model calls small operators again and again: an LSTM by its cell, or a mask set one by one."""

from __future__ import annotations

import torch
from timing import Samples, Steps, options, place
from torch import nn


class Recurrent(nn.Module):
    """An LSTM over a sequence, by its cell or as a whole."""

    def __init__(self, width: int, cells: bool) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(width, 2 * width) if cells else None
        self.lstm = None if cells else nn.LSTM(width, 2 * width, batch_first=True)
        self.head = nn.Linear(2 * width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A number for each sequence of (batch, length, width)."""
        if self.lstm is not None:
            return self.head(self.lstm(x)[0][:, -1])  # type: ignore[no-any-return]
        hidden = x.new_zeros(len(x), self.head.in_features)
        state = hidden, hidden
        for at in range(x.shape[1]):
            state = self.cell(x[:, at], state)  # type: ignore[misc]
        return self.head(state[0])  # type: ignore[no-any-return]


class Masked(nn.Module):
    """Attention that sees no later tokens, with the mask set by element or as a whole."""

    def __init__(self, width: int, elements: bool) -> None:
        super().__init__()
        self.elements, self.into, self.head = elements, nn.Linear(width, 3 * width), nn.Linear(width, 1)

    def mask(self, length: int, on: torch.device) -> torch.Tensor:
        """Of (length, length), -inf where a token is later."""
        mask = torch.zeros(length, length, device=on)
        if not self.elements:
            return mask.masked_fill(torch.ones_like(mask).triu(1).bool(), -torch.inf)
        for token in range(length):
            for later in range(token + 1, length):
                mask[token, later] = -torch.inf
        return mask

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A number for each token of (batch, length, width)."""
        query, key, value = self.into(x).chunk(3, -1)
        mask = self.mask(x.shape[1], x.device)
        return self.head(nn.functional.scaled_dot_product_attention(query, key, value, mask))  # type: ignore[no-any-return]


def main() -> None:
    """Train."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    set_up = options(cells=False, elements=False, recurrent=True, width=64, length=200, batch=16, steps=40)
    width = set_up["width"]
    model = (Recurrent(width, set_up["cells"]) if set_up["recurrent"] else Masked(width, set_up["elements"])).to(
        place()
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    steps, seen = Steps(), Samples()
    for _ in range(set_up["steps"]):
        batch = torch.randn(set_up["batch"], set_up["length"], width)
        seen.saw(batch)
        model(batch.to(place())).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        steps.ended()
    steps.report()
    seen.report()


if __name__ == "__main__":
    main()
