# A callback computes a metric of a library for each step of a Trainer.
import random
import statistics

import torch
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments

torch.manual_seed(0)
torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(16, 2)

    def forward(self, x, labels):
        return {"loss": nn.functional.cross_entropy(self.out(x), labels)}


class Rows(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 4000

    def __getitem__(self, at: int):
        return {"x": torch.ones(16) * (at % 7), "labels": at % 2}


class Metric(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        seen = [random.Random(state.global_step).random() for _ in range(300)]
        self.spread = statistics.pstdev(seen), statistics.quantiles(seen)


arguments = TrainingArguments(
    "runs/metric", per_device_train_batch_size=8, max_steps=400, report_to=[], use_cpu=True, save_strategy="no"
)
Trainer(Net(), arguments, train_dataset=Rows(), callbacks=[Metric()]).train()
