"""A small job that refuses a change: what it runs, the patch that it is given, and what a rule would advise."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

BARE = """
import multiprocessing, os, random, sys, torch
import diagnose.probes.bootstrap.sitecustomize  # as in a process of `diagnose run --apply`
from torch.utils.data import *
torch.set_num_threads(1)
torch.manual_seed(3)
model = torch.nn.Sequential(torch.nn.Linear(1, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
class Numbers(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, i):
        return torch.tensor([float(i)])
def train(loader=None, optimizer=None, model=model, steps=30):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=1e-9)
    while steps:
        for batch in [torch.ones(4, 1)] if loader is None else loader:
            model(batch).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            steps -= 1
            if not steps:
                return
"""
TRAINER = """
import os, sys, torch
import diagnose.probes.bootstrap.sitecustomize  # as in a process of `diagnose run --apply`
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
torch.set_num_threads(1)
config = LlamaConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
                     intermediate_size=32, vocab_size=64)
rows = [{"input_ids": [1, 2, 3, 4], "labels": [1, 2, 3, 4]}] * 64
class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        while True:
            yield rows[0]
class Computed(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, i):
        return rows[i]
def made(**more):
    return TrainingArguments(output_dir=os.path.join(sys.argv[1], "o"), max_steps=30, report_to=[], use_cpu=True,
                             disable_tqdm=True, per_device_train_batch_size=2, save_strategy="no", **more)
def train(args=None, data=rows, model=None, **more):
    model = model or LlamaForCausalLM._from_config(config)
    Trainer(model=model, args=args or made(), train_dataset=data, **more).train()
"""


@dataclass(frozen=True)
class Job:
    """A job that has the reason; `advised` is the change in the words of rules."""

    body: str
    patch: dict[str, dict[str, object]]
    advised: tuple[str, str, object]
    told: str = ""
    read: bool = True
    start: str = BARE

    @property
    def script(self) -> str:
        """What runs."""
        return self.start + textwrap.dedent(self.body)


def of_workers(body: str, told: str = "", read: bool = True) -> Job:
    advised = "training_arguments", "dataloader_num_workers", 2
    return Job(body, {"dataloader": {"num_workers": 2}}, advised, told, read)


def of_loader(key: str, value: object, body: str, told: str = "", read: bool = True) -> Job:
    return Job(body, {"dataloader": {key: value}}, ("training_arguments", f"dataloader_{key}", value), told, read)


def of_trainer(key: str, value: object, body: str, told: str = "", read: bool = True) -> Job:
    return Job(body, {"training_arguments": {key: value}}, ("training_arguments", key, value), told, read, TRAINER)


def of_collator(body: str, told: str = "") -> Job:
    return Job(
        body,
        {"collator": {"padding": "longest"}},
        ("training_arguments", "padding", "attention_mask"),
        told,
        False,
        TRAINER,
    )


def of_torch(target: str, key: str, advised: tuple[str, object], body: str, told: str = "", read: bool = True) -> Job:
    values = {"optimizer": True, "torch": True, "accelerator": "inductor"}
    return Job(body, {target: {key: values[target]}}, ("training_arguments", *advised), told, read)


def of_compiling(body: str, told: str = "", read: bool = True) -> Job:
    return of_torch("torch", "compile", ("torch_compile", True), body, told, read)
