"""A loop under Accelerate whose collator tokenises raw text, unless that was done beforehand."""

from __future__ import annotations

import random
from typing import Any

import torch
from accelerate import Accelerator
from timing import Samples, Steps, options, place
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch import nn

WORDS, LENGTH = 400, 64


def tokenizer(texts: list[str]) -> Tokenizer:
    """Byte pairs learnt from some of the texts."""
    made = Tokenizer(models.BPE(unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.train_from_iterator(texts[:50], trainers.BpeTrainer(vocab_size=512, special_tokens=["[UNK]"]))
    made.enable_truncation(LENGTH)
    return made


def main() -> None:
    """Train."""
    torch.set_num_threads(1)
    set_up = options(tokenised=False, workers=0, words=WORDS, batch=8, steps=60)
    drawn = random.Random(0)
    words = ["".join(drawn.choices("abcdefgh", k=drawn.randint(2, 9))) for _ in range(2000)]
    texts = [" ".join(drawn.choices(words, k=set_up["words"])) for _ in range(set_up["batch"] * set_up["steps"])]
    tokens = tokenizer(texts)

    def encode(text: str) -> list[int]:
        ids: list[int] = tokens.encode(text).ids
        return ids

    def collate(batch: list[Any]) -> torch.Tensor:
        return torch.tensor(batch if set_up["tokenised"] else [encode(text) for text in batch])

    data: list[Any] = [encode(text) for text in texts] if set_up["tokenised"] else texts
    workers = set_up["workers"]
    loader = torch.utils.data.DataLoader(data, batch_size=set_up["batch"], num_workers=workers, collate_fn=collate)  # type: ignore[arg-type]
    model: nn.Module = nn.Sequential(nn.Embedding(512, 64), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 512))
    optimizer: Any = torch.optim.AdamW(model.parameters(), fused=True)
    accelerator = Accelerator(cpu=place() == "cpu")
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    steps, seen = Steps(), Samples()
    for ids in loader:
        seen.saw(ids)
        logits = model(ids[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        print(f"loss {loss.item():.3f}")
        steps.ended()
    steps.report()
    seen.report()


if __name__ == "__main__":
    main()
