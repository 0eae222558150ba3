"""An application of Hydra, which moves to a folder of its own and scores each batch in Python."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import hydra
import torch
from hydra.core.config_store import ConfigStore
from timing import Samples, Steps, place
from torch import nn


@dataclass
class Config:
    """The settings."""

    scores_every: int = 1
    words: int = 3000
    steps: int = 60


ConfigStore.instance().store(name="train", node=Config)


def edit_distance(said: list[int], meant: list[int]) -> int:
    """How many words are to be changed."""
    before = list(range(len(meant) + 1))
    for at, word in enumerate(said, 1):
        row = [at]
        for other, known in enumerate(meant, 1):
            row.append(min(before[other] + 1, row[-1] + 1, before[other - 1] + (word != known)))
        before = row
    return before[-1]


@hydra.main(version_base=None, config_name="train")
def main(config: Config) -> None:
    """Train."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(256, 64), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 256)).to(place())
    optimizer, steps, seen = torch.optim.AdamW(model.parameters(), fused=True), Steps(), Samples()
    tokens = torch.randint(0, 256, (8 * config.steps, 65))
    side = int(config.words**0.5)
    for number, ids in enumerate(torch.utils.data.DataLoader(tokens, batch_size=8), 1):  # type: ignore[var-annotated, arg-type]
        seen.saw(ids)
        ids = ids.to(place())
        logits = model(ids[:, :-1])
        nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
        if number % config.scores_every == 0:
            said = logits.argmax(-1).tolist()
            wrong = [edit_distance(row[:side], meant[:side]) for row, meant in zip(said, ids.tolist(), strict=True)]
            print(f"word error rate {sum(wrong) / len(wrong) / side:.3f}")
        steps.ended()
    steps.report()
    seen.report()


if __name__ == "__main__":
    sys.exit(main())
