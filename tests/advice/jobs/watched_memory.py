"""transformers' Trainer of a small model; with `watched`, a thread of it reads the memory of the process."""

import sys
import tempfile

import torch
from transformers import Trainer, TrainingArguments


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(6)))

    def forward(self, rows: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": (self.layers(rows) - labels).square().mean()}


torch.set_num_threads(1)
data = [{"rows": torch.randn(64), "labels": torch.randn(64)} for _ in range(480)]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, per_device_train_batch_size=8, max_steps=60, save_strategy="no", report_to=[], use_cpu=True,
        skip_memory_metrics="watched" not in sys.argv,
    )  # fmt: skip
    Trainer(Model(), arguments, train_dataset=data).train()
