"""Training scripts with a planted fault of their input, and what the probe measures of them."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

from capture.scripts import run

from diagnose.commands.data.answer import PipelineReport, Stage
from diagnose.commands.data.judge import report_of
from diagnose.commands.data.measured import LoadingMeasurement, decoded
from diagnose.commands.data.question import LoaderQuestion
from diagnose.probes.pipeline.asked import MEASURED, LoadingRequest

HOOKS = """
import sys, time
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset
from diagnose.probes.pipeline import loop_begin
loop_begin.install()
torch.set_num_threads(1)
"""
TEXTS = (
    HOOKS
    + """
def tokenise(text):
    ids = []
    for word in text.split():
        number = 0
        for letter in word:
            number = (number * 31 + ord(letter)) % 30_000
        ids.append(number)
    return ids
class Texts(Dataset):
    def __len__(self):
        return 4000
    def __getitem__(self, index):
        return {"input_ids": tokenise("many quick brown foxes " * (5 + index % 16 * 10)), "label": index % 2}
def padded(samples, length=None):
    longest = length or max(len(each["input_ids"]) for each in samples)
    ids, mask = torch.zeros(len(samples), longest, dtype=torch.long), torch.zeros(len(samples), longest)
    for row, each in enumerate(samples):
        ids[row, : len(each["input_ids"])] = torch.tensor(each["input_ids"])
        mask[row, : len(each["input_ids"])] = 1
    return {"input_ids": ids, "attention_mask": mask}
def train(loader):
    model = nn.Embedding(30_000, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in loader:
        model(batch["input_ids"]).mean().backward()
        optimizer.step()
        print("trained")
"""
)
SIMPLE = (
    HOOKS
    + """
def train(loader):
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in loader:
        model(batch).mean().backward()
        optimizer.step()
        print("trained")
"""
)


def ended(
    script: str, folder: Path, seconds: float = 2.0, samples: int = 5000, loader: int | None = None
) -> subprocess.CompletedProcess[str]:
    """The script, run with its input measured into `folder`."""
    asked = replace(LoadingRequest(str(folder)), seconds=seconds, samples=samples, loader=loader)
    return run(script, folder, fresh=False, PYTHON_DIAGNOSE_PIPELINE=asked.to_json())


def measured(script: str, folder: Path, seconds: float = 2.0, loader: int | None = None) -> LoadingMeasurement:
    """What was measured of the script, which has to end without having trained."""
    done = ended(script, folder, seconds, loader=loader)
    assert done.returncode == 0, done.stderr
    assert "trained" not in done.stdout
    return decoded((folder / MEASURED).read_bytes())


def report(script: str, folder: Path, question: LoaderQuestion | None = None, seconds: float = 2.0) -> PipelineReport:
    """What is said of the script."""
    return report_of(measured(script, folder, seconds), question or LoaderQuestion())


def stage(said: PipelineReport, name: str) -> Stage:
    """The stage of this name."""
    return next(each for each in said.stages if each.name == name)
