"""Samples of the loops with faults, and how they become batches."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

WORDS = ["".join(random.Random(n).choices("abcdefghij", k=3 + n % 7)) for n in range(3000)]
POOL, LENGTHS = 64, 512


class Data(torch.utils.data.Dataset[Any]):
    """Token ids, texts, images or rows, from a small pool."""

    def __init__(self, o: dict[str, Any]) -> None:
        self.o, drawn, tokens = o, random.Random(0), o["tokens"]
        self.pool = [torch.randint(2, o["vocab"], (tokens,)) for _ in range(POOL)]
        self.lengths = [max(8, min(int(drawn.expovariate(8 / tokens)), tokens)) for _ in range(LENGTHS)]
        self.image = torch.randn(POOL, 3, o["pixels"], o["pixels"]) if o["model"] == "conv" else None
        texts = [" ".join(random.Random(n).choices(WORDS, k=o["words"])) for n in range(POOL)]
        self.texts = texts if o["words"] else None
        self.rows = torch.randn(POOL, o["width"]) if o["model"] == "small" else None

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, n: int) -> Any:
        if self.o["sleep_ms"]:
            time.sleep(self.o["sleep_ms"] / 1e3)
        if self.image is not None:
            return self.image[n % POOL], n % 100
        if self.rows is not None:
            return self.rows[n % POOL], 0
        if self.texts is not None:
            return self.texts[n % POOL]
        return self.pool[n % POOL][: self.lengths[n % LENGTHS]] if self.o["pads"] else self.pool[n % POOL]


class Texts:
    """Tokenises the texts of a batch."""

    def __init__(self, o: dict[str, Any]) -> None:
        self.o, self.tokenizer = o, None

    def __call__(self, batch: list[Any]) -> Any:
        """Ids, padded to the length of the job."""
        if self.tokenizer is None:
            self.tokenizer = trained(batch, min(600, self.o["vocab"]))
        length = self.o["tokens"]
        rows = [self.tokenizer.encode(text).ids[:length] for text in batch]
        ids = torch.tensor([row + [0] * (length - len(row)) for row in rows])
        return ids, ids


def trained(texts: list[str], vocabulary: int) -> Any:
    """A tokenizer of these texts."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer: Any = Tokenizer(models.BPE(unk_token="[U]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=["[U]"]))
    return tokenizer


class Padded:
    """Pads to the longest of the batch, or to the longest possible."""

    def __init__(self, o: dict[str, Any]) -> None:
        self.o = o

    def __call__(self, batch: list[Any]) -> Any:
        """Ids, mask and labels."""
        length = self.o["tokens"] if self.o["pads"] == "longest possible" else max(len(each) for each in batch)
        ids = torch.stack([F.pad(each, (0, length - len(each))) for each in batch])
        return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": ids.masked_fill(ids == 0, -100)}


class Varying:
    """Batches of another length every few steps where the job compiles, else in each."""

    def __init__(self, o: dict[str, Any]) -> None:
        self.o, self.calls = o, 0

    def __call__(self, batch: list[Any]) -> Any:
        """Ids, cut."""
        self.calls += 1
        cut = self.calls // 6 % 8 if self.o["compiled"] else random.randrange(self.o["tokens"] // 16)
        ids = torch.stack([each[: self.o["tokens"] - 8 * cut] for each in batch])
        return ids, ids


def plain(batch: list[Any]) -> Any:
    """Samples of one size."""
    if isinstance(batch[0], tuple):
        return torch.stack([each[0] for each in batch]), torch.tensor([each[1] for each in batch])
    ids = torch.stack(batch)
    return ids, ids


def collator(o: dict[str, Any]) -> Callable[[list[Any]], Any]:
    """How the job makes batches."""
    return Texts(o) if o["words"] else Padded(o) if o["pads"] else Varying(o) if o["varies"] else plain


def loader(o: dict[str, Any], pins: bool) -> Any:
    """The job's DataLoader."""
    data, how = Data(o), {"num_workers": o["workers"], "pin_memory": pins, "collate_fn": collator(o)}
    if o["pads"] == "grouped":
        return torch.utils.data.DataLoader(data, batch_sampler=bucketed(o["batch"], data.lengths), **how)
    return torch.utils.data.DataLoader(data, batch_size=o["batch"], **how)


def bucketed(batch: int, lengths: list[int]) -> list[list[int]]:
    """Batches of texts of about one length."""
    order = sorted(range(LENGTHS), key=lambda n: lengths[n])
    batches = [order[n : n + batch] for n in range(0, LENGTHS - batch + 1, batch)]
    random.Random(0).shuffle(batches)
    return batches * 2000
