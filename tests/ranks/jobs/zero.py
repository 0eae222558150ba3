"""Layers under DeepSpeed's ZeRO on the CPU, in the stage asked for: `zero.py STAGE [offload]`."""

import importlib
import os
import sys
from typing import Any

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import deepspeed
import torch
from torch import nn

WIDTH, BATCH, STEPS = 512, 4, 30  # a matrix that ZeRO-3 does not keep on each rank


def main() -> None:
    """Train on random rows, two micro-batches for each update."""
    torch.manual_seed(0)
    own: Any = importlib.import_module("deepspeed.comm.torch")
    own.build_shm_op = lambda: None  # would be compiled for minutes
    deepspeed.init_distributed("gloo")
    model = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH))))
    offload = {"offload_optimizer": {"device": "cpu"}} if "offload" in sys.argv else {}
    engine, *_ = deepspeed.initialize(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters()),
        config={
            "train_micro_batch_size_per_gpu": BATCH,
            "gradient_accumulation_steps": 2,
            "bf16": {"enabled": True},
            "zero_optimization": {"stage": int(sys.argv[1]), "reduce_bucket_size": 1_000_000, **offload},
            "zero_force_ds_cpu_optimizer": False,  # DeepSpeed's own would be compiled for minutes
        },
    )
    for _ in range(2 * STEPS):
        engine.backward(engine(torch.randn(BATCH, WIDTH, dtype=torch.bfloat16)).float().square().mean())
        engine.step()


if __name__ == "__main__":
    main()
