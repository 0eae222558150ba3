"""A small transformer under DeepSpeed on the CPU, with many micro-batches of one sample as asked."""

from __future__ import annotations

import importlib
import os
from typing import Any

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import deepspeed
import torch
from timing import Samples, Steps, options
from torch import nn


def main() -> None:
    """Train."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    set_up = options(batch=1, accumulate=8, stage=0, width=64, steps=40)
    os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    own: Any = importlib.import_module("deepspeed.comm.torch")
    own.build_shm_op = lambda: None  # would be compiled for minutes, and is of no use to one rank
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    layer = nn.TransformerEncoderLayer(set_up["width"], 4, 2 * set_up["width"], batch_first=True, dropout=0.0)
    layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    model = nn.Sequential(nn.Embedding(256, set_up["width"]), layers, nn.Linear(set_up["width"], 256))
    engine, _, _, _ = deepspeed.initialize(
        model=model, optimizer=torch.optim.AdamW(model.parameters(), fused=True),
        config={
            "train_micro_batch_size_per_gpu": set_up["batch"], "gradient_accumulation_steps": set_up["accumulate"],
            "zero_optimization": {"stage": set_up["stage"]}, "steps_per_print": 1_000_000,
        },
    )  # fmt: skip
    tokens = torch.randint(0, 256, (set_up["batch"] * set_up["accumulate"] * set_up["steps"], 17))
    steps, seen = Steps(), Samples()
    for number, ids in enumerate(torch.utils.data.DataLoader(tokens, set_up["batch"]), 1):  # type: ignore[var-annotated, arg-type]
        seen.saw(ids)
        loss = nn.functional.cross_entropy(engine(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        engine.backward(loss)
        engine.step()
        if number % set_up["accumulate"] == 0:
            steps.ended()
    steps.report()
    seen.report()


if __name__ == "__main__":
    main()
