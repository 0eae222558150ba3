"""A LightningModule under Lightning's Trainer, whose samples sleep as on a slow disk."""

from __future__ import annotations

import tempfile
import warnings
from typing import Any

import lightning
import torch
from loader import BATCH, Rows
from timing import Samples, Steps, options, place
from torch import nn


class Module(lightning.LightningModule):
    """Some linear layers."""

    def __init__(self, steps: Steps, seen: Samples) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(256, 256) for _ in range(6)))
        self._steps, self._seen = steps, seen

    def training_step(self, batch: torch.Tensor, _number: int) -> torch.Tensor:
        """The loss of a batch."""
        self._seen.saw(batch)
        loss: torch.Tensor = self.layers(batch.repeat(16, 1)).square().mean()
        self.log("loss", loss)
        return loss

    def on_train_batch_end(self, *_: Any) -> None:
        """A step has ended."""
        self._steps.ended()

    def configure_optimizers(self) -> Any:
        """The optimizer."""
        return torch.optim.AdamW(self.parameters(), fused=True)


def main() -> None:
    """Train."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    set_up = options(sleep_ms=3.0, workers=0, steps=50)
    steps, seen = Steps(), Samples()
    data = Rows(BATCH * set_up["steps"], set_up["sleep_ms"], 0)
    with tempfile.TemporaryDirectory() as folder:
        lightning.Trainer(
            max_epochs=1, accelerator="cpu" if place() == "cpu" else "gpu", devices=1, logger=False,
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
        ).fit(Module(steps, seen), torch.utils.data.DataLoader(data, BATCH, num_workers=set_up["workers"]))  # fmt: skip
    steps.report()
    seen.report()


if __name__ == "__main__":
    main()
